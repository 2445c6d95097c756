"""FUSO's Fig 4: the tail of flow completion times over the loss rate of one of three paths."""
import matplotlib.pyplot as plt
import spindle

results = spindle.sweep(spindle.Experiment.builtin("fuso-fig4ab").at_scale("quick"))
for transport, points in results.summary(["fct.p99"]).to_pandas().groupby("transport", sort=False):
    plt.errorbar(points["loss"], points["fct.p99"] / 1e3, label=transport, capsize=2,
                 yerr=[(points["fct.p99"] - points["fct.p99.low"]) / 1e3, (points["fct.p99.high"] - points["fct.p99"]) / 1e3])
plt.xlabel("loss on one path"), plt.ylabel("99th percentile of completion times, ms"), plt.yscale("log"), plt.legend()
plt.savefig("fig4ab.png", dpi=150)
