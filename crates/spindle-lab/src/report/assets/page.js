"use strict";
(function () {
  // Titles inside pictures become tips that also open at a touch.
  var tip = document.getElementById("tip");
  document.querySelectorAll("svg title").forEach(function (t) {
    t.parentNode.setAttribute("data-tip", t.textContent);
    t.remove();
  });
  function showTip(e) {
    var at = e.target.closest ? e.target.closest("[data-tip]") : null;
    tip.hidden = !at;
    if (!at) return;
    tip.textContent = at.getAttribute("data-tip");
    var w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(e.clientX + 12, innerWidth - w - 4)) + "px";
    tip.style.top = Math.max(4, e.clientY - h - 14) + "px";
  }
  document.addEventListener("pointermove", showTip);
  document.addEventListener("pointerdown", showTip);
  addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });

  // Zoom and pan of the time-sequence pictures, by changing the view box.
  document.querySelectorAll(".zoomable").forEach(function (figure) {
    var bar = figure.querySelector(".zoom");
    var views = [];
    figure.querySelectorAll("svg").forEach(function (svg) { views.push(makeView(svg)); });
    bar.hidden = false;
    bar.addEventListener("click", function (e) {
      var what = e.target.getAttribute("data-zoom");
      if (!what) return;
      views.forEach(function (v) { v.act(what); });
      refresh();
    });
    function refresh() {
      var moved = views.some(function (v) { return v.moved(); });
      bar.querySelectorAll("button").forEach(function (b) {
        if (b.getAttribute("data-zoom") !== "in") b.disabled = !moved;
      });
    }
    refresh();

    function makeView(svg) {
      var whole = svg.getAttribute("viewBox").split(" ").map(Number);
      var box = whole.slice(), fingers = new Map(), last = null;
      svg.setAttribute("tabindex", "0");
      function apply() {
        box[2] = Math.min(whole[2], Math.max(whole[2] / 40, box[2]));
        box[3] = box[2] * whole[3] / whole[2];
        box[0] = Math.max(0, Math.min(whole[2] - box[2], box[0]));
        box[1] = Math.max(0, Math.min(whole[3] - box[3], box[1]));
        svg.setAttribute("viewBox", box.join(" "));
        svg.classList.toggle("moved", moved());
        refresh();
      }
      function moved() { return box[2] !== whole[2]; }
      // Changes the size by a factor and keeps the point at the shares fx, fy where it is.
      function scale(factor, fx, fy) {
        var w = Math.min(whole[2], box[2] * factor), h = w * whole[3] / whole[2];
        box = [box[0] + (box[2] - w) * fx, box[1] + (box[3] - h) * fy, w, h];
        apply();
      }
      function act(what) {
        if (what === "in") scale(1 / 1.6, 0.5, 0.5);
        else if (what === "out") scale(1.6, 0.5, 0.5);
        else if (what === "all") { box = whole.slice(); apply(); }
        else {
          box[0] += what === "left" ? -box[2] / 3 : what === "right" ? box[2] / 3 : 0;
          box[1] += what === "up" ? -box[3] / 3 : what === "down" ? box[3] / 3 : 0;
          apply();
        }
      }
      function share(e) {
        var r = svg.getBoundingClientRect();
        return [(e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height];
      }
      svg.addEventListener("wheel", function (e) {
        // The page keeps its wheel until the picture was chosen by a click or a key.
        if (!e.ctrlKey) { if (document.activeElement !== svg) return; }
        e.preventDefault();
        var s = share(e);
        scale(e.deltaY > 0 ? 1.2 : 1 / 1.2, s[0], s[1]);
      }, { passive: false });
      svg.addEventListener("keydown", function (e) {
        var keys = { "+": "in", "=": "in", "-": "out", "0": "all", ArrowLeft: "left",
          ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
        var what = keys[e.key];
        if (!what || e.ctrlKey || e.metaKey) return;
        if (what.length > 3) { if (!moved()) return; }
        e.preventDefault();
        act(what);
      });
      svg.addEventListener("pointerdown", function (e) {
        fingers.set(e.pointerId, share(e));
        last = null;
        if (moved()) svg.setPointerCapture(e.pointerId);
      });
      svg.addEventListener("pointermove", function (e) {
        var before = fingers.get(e.pointerId);
        if (!before || fingers.size !== 1 || !moved()) return;
        var now = share(e);
        box[0] -= (now[0] - before[0]) * box[2];
        box[1] -= (now[1] - before[1]) * box[3];
        fingers.set(e.pointerId, now);
        apply();
      });
      ["pointerup", "pointercancel", "pointerleave"].forEach(function (name) {
        svg.addEventListener(name, function (e) { fingers.delete(e.pointerId); });
      });
      svg.addEventListener("touchmove", function (e) {
        if (e.touches.length !== 2) return;
        e.preventDefault();
        var a = share(e.touches[0]), b = share(e.touches[1]);
        var d = Math.hypot(e.touches[0].clientX - e.touches[1].clientX,
          e.touches[0].clientY - e.touches[1].clientY);
        if (last) scale(last / Math.max(d, 1), (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        last = d;
      }, { passive: false });
      svg.addEventListener("touchend", function () { last = null; });
      return { act: act, moved: moved };
    }
  });
})();
