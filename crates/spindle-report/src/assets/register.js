
(function () {
  // The register of claims: filters and order. Both are kept in the page's address, so that a link shows the same rows.
  var table = document.getElementById("register"), form = document.getElementById("filter");
  var shown = document.getElementById("shown"), body = table.tBodies[0];
  var rows = [].slice.call(body.rows), fields = ["paper", "reading", "verdict", "transport", "outcome", "robustness", "text"];
  var heads = [].slice.call(table.querySelectorAll("[data-sort]"));
  var verdicts = ["fails", "tied", "not-checkable", "holds"], sort = "", down = false;
  rows.forEach(function (row, i) { row.number = i; row.words = row.textContent.toLowerCase(); });
  // A link to a verdict has the verdict as its class, and a sign and the reading as its text.
  [].forEach.call(body.querySelectorAll("a.verdict"), function (link) {
    link.dataset.verdict = link.classList[1];
    link.dataset.reading = link.textContent.trim().slice(2);
    link.title = link.dataset.verdict.replace("-", " ") + " in the reading " + link.dataset.reading;
  });
  form.hidden = false;
  // Robustness is a field only if variations were run.
  fields = fields.filter(function (f) { return form.elements[f]; });

  function badges(row) { return [].slice.call(row.querySelectorAll("[data-reading]")); }
  function matches(row, want) {
    var transports = row.dataset.transports.split(" "), found = false;
    badges(row).forEach(function (b) {
      b.hidden = !!want.reading && b.dataset.reading !== want.reading;
      found = found || !b.hidden && (!want.verdict || b.dataset.verdict === want.verdict);
    });
    return found && (!want.paper || row.dataset.paper === want.paper) &&
      (!want.outcome || row.dataset.outcome === want.outcome) &&
      (!want.robustness || row.dataset.robustness === want.robustness) &&
      (!want.transport || transports.indexOf(want.transport) >= 0) &&
      row.words.indexOf(want.text.toLowerCase()) >= 0;
  }
  function rank(row) {
    if (sort !== "verdict") return sort === "paper" ? row.cells[1].textContent : row.dataset.claim;
    var first = badges(row).find(function (b) { return !b.hidden; });
    return first ? verdicts.indexOf(first.dataset.verdict) : verdicts.length;
  }
  function compare(a, b) {
    var x = rank(a), y = rank(b);
    var order = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
    return (down ? -order : order) || a.number - b.number;
  }
  function apply() {
    var want = {}, count = 0;
    fields.forEach(function (f) { want[f] = form.elements[f].value; });
    rows.forEach(function (row) {
      row.hidden = !matches(row, want);
      if (!row.hidden) count += 1;
    });
    var order = rows.slice();
    order.sort(sort ? compare : function (a, b) { return a.number - b.number; });
    order.forEach(function (row) { body.appendChild(row); });
    heads.forEach(function (h) {
      var now = h.dataset.sort !== sort ? "none" : down ? "descending" : "ascending";
      h.parentNode.setAttribute("aria-sort", now);
    });
    shown.textContent = count + " of " + rows.length + " claims";
  }
  function keep() {
    var kept = new URLSearchParams();
    fields.forEach(function (f) { if (form.elements[f].value) kept.set(f, form.elements[f].value); });
    if (sort) kept.set("sort", (down ? "-" : "") + sort);
    history.replaceState(null, "", "#" + kept);
    apply();
  }
  function restore() {
    var kept = new URLSearchParams(location.hash.slice(1)), by = kept.get("sort") || "";
    fields.forEach(function (f) {
      form.elements[f].value = kept.get(f) || "";
      if (form.elements[f].selectedIndex < 0) form.elements[f].selectedIndex = 0;
    });
    down = by[0] === "-";
    sort = by.replace("-", "");
    apply();
  }
  form.addEventListener("input", keep);
  form.addEventListener("submit", function (e) { e.preventDefault(); });
  addEventListener("hashchange", restore);
  heads.forEach(function (h) {
    h.addEventListener("click", function () {
      down = sort === h.dataset.sort && !down;
      sort = h.dataset.sort;
      keep();
    });
  });
  document.getElementById("csv").addEventListener("click", function () {
    function quoted(text) { return '"' + text.trim().replace(/\s+/g, " ").replace(/"/g, '""') + '"'; }
    var lines = [["claim", "sentence", "paper", "reading", "verdict", "robustness"].join(",")];
    [].forEach.call(body.rows, function (row) {
      if (row.hidden) return;
      badges(row).forEach(function (b) {
        if (b.hidden) return;
        var texts = [row.dataset.claim, row.querySelector("div").textContent, row.cells[1].textContent];
        lines.push(texts.concat(b.dataset.reading, b.dataset.verdict, row.dataset.robustness).map(quoted).join(","));
      });
    });
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "claims.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  restore();
})();
