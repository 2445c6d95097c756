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

  // A picture as PNG, drawn from what is shown, in twice its size.
  document.querySelectorAll("figcaption a.picture").forEach(function (link) {
    if (link.nextElementSibling && link.nextElementSibling.matches("a.picture")) return;
    var button = document.createElement("button"), figure = link.closest("figure");
    button.type = "button";
    button.className = "png";
    button.textContent = "PNG";
    button.addEventListener("click", function () {
      var shown = [].find.call(figure.querySelectorAll(":scope > svg"), function (s) { return s.getClientRects().length; });
      var box = shown.getBoundingClientRect(), copy = shown.cloneNode(true), image = new Image();
      copy.setAttribute("width", 2 * box.width);
      copy.setAttribute("height", 2 * box.height);
      copy.insertBefore(document.querySelector("head style").cloneNode(true), copy.firstChild);
      image.onload = function () {
        var canvas = document.createElement("canvas"), save = document.createElement("a");
        canvas.width = image.width;
        canvas.height = image.height;
        var pen = canvas.getContext("2d");
        pen.fillStyle = getComputedStyle(document.documentElement).backgroundColor;
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(image, 0, 0);
        save.href = canvas.toDataURL("image/png");
        var file = figure.querySelector('a.picture[data-axis="' + shown.dataset.axis + '"]') || link;
        save.download = file.getAttribute("download").replace(/svg$/, "png");
        button.dispatchEvent(new CustomEvent("saved", { detail: save.href.length }));
        save.click();
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
    });
    link.after(" ", button);
  });

  // The choice of each picture's vertical axis. The page's address keeps it, so that a link shows the same pictures.
  var axes = [].slice.call(document.querySelectorAll("figure > .axes"));
  function chosenAxes() {
    return new URLSearchParams(location.hash.indexOf("=") > 0 ? location.hash.slice(1) : "");
  }
  function showAxes() {
    var kept = chosenAxes();
    axes.forEach(function (bar) {
      var figure = bar.parentNode, buttons = [].slice.call(bar.querySelectorAll("button"));
      var names = buttons.map(function (b) { return b.dataset.axis; }), chosen = kept.get(figure.id);
      if (names.indexOf(chosen) < 0) chosen = names[0];
      buttons.forEach(function (b) { b.setAttribute("aria-pressed", b.dataset.axis === chosen); });
      figure.querySelectorAll(":scope > svg").forEach(function (svg) {
        svg.toggleAttribute("hidden", svg.dataset.axis !== chosen);
      });
      bar.hidden = false;
    });
  }
  axes.forEach(function (bar) {
    bar.addEventListener("click", function (e) {
      var name = e.target.dataset.axis, kept = chosenAxes(), own = bar.querySelector("button").dataset.axis;
      if (!name) return;
      if (name === own) kept.delete(bar.parentNode.id);
      else kept.set(bar.parentNode.id, name);
      history.replaceState(null, "", "#" + kept);
      showAxes();
    });
  });
  addEventListener("hashchange", showAxes);
  showAxes();

  // Buttons that copy the commands of a cell's run: one traces its flows, the other also writes a capture.
  function copy(text) {
    function fill(e) {
      e.clipboardData.setData("text/plain", text);
      e.preventDefault();
    }
    document.addEventListener("copy", fill);
    var done = document.execCommand("copy");
    document.removeEventListener("copy", fill);
    if (!done && navigator.clipboard) navigator.clipboard.writeText(text);
  }
  document.querySelectorAll("td[data-trace]").forEach(function (cell) {
    var trace = cell.dataset.trace, bar = document.createElement("div");
    bar.className = "copies";
    [["trace", trace], ["capture", trace + cell.closest("table").dataset.capture]].forEach(function (pair) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = "copy " + pair[0];
      button.title = pair[1];
      button.setAttribute("aria-label", "copy the command " + pair[1]);
      button.addEventListener("click", function () {
        copy(pair[1]);
        button.textContent = "copied";
        setTimeout(function () { button.textContent = "copy " + pair[0]; }, 1500);
      });
      bar.append(button);
    });
    cell.append(bar);
  });

  // A link into a folded part opens it.
  function unfold() {
    var at = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    var opened = false;
    for (var e = at; e; e = e.parentElement) {
      if (e.tagName === "DETAILS") { opened = opened || !e.open; e.open = true; }
    }
    if (opened) at.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();

  // Zoom into the time of the time-sequence pictures: lengths are stretched, marks keep their shape
  // and move, the axis is written again. `span` is the part of the whole that is shown, 0 to 1.
  var NS = "http://www.w3.org/2000/svg", DEEPEST = 1 / 4000;
  document.querySelectorAll(".zoomable").forEach(function (figure) {
    var bar = figure.querySelector(".zoom"), range = bar.querySelector(".range");
    var views = [].map.call(figure.querySelectorAll(":scope > svg"), makeView);
    var span = [0, 1], asked = false;
    bar.hidden = false;
    refresh();
    bar.addEventListener("click", function (e) {
      var what = e.target.getAttribute("data-zoom");
      if (what) act(what);
    });

    function zoomed() { return span[1] - span[0] < 1; }
    function act(what) {
      var third = (span[1] - span[0]) / 3;
      if (what === "in") scale(1 / 2, 0.5);
      else if (what === "out") scale(2, 0.5);
      else if (what === "left") show(span[0] - third, span[1] - third);
      else if (what === "right") show(span[0] + third, span[1] + third);
      else show(0, 1);
    }
    // Changes the width by a factor and keeps the instant at the share `at` of the width in place.
    function scale(factor, at) {
      var width = span[1] - span[0];
      var next = Math.min(1, Math.max(DEEPEST, width * factor));
      var from = span[0] + (width - next) * at;
      show(from, from + next);
    }
    function show(from, to) {
      var width = Math.min(1, to - from);
      from = Math.max(0, Math.min(1 - width, from));
      span = [from, from + width];
      refresh();
    }
    function refresh() {
      bar.querySelectorAll("button").forEach(function (b) {
        if (b.getAttribute("data-zoom") !== "in") b.disabled = !zoomed();
      });
      var whole = views[0].time;
      figure.setAttribute("data-from", span[0] * whole);
      figure.setAttribute("data-to", span[1] * whole);
      range.textContent = zoomed() ? micros(span[0] * whole) + " to " + micros(span[1] * whole) : "";
      if (asked) return;
      asked = true;
      requestAnimationFrame(function () {
        asked = false;
        views.forEach(function (v) { v.draw(span); });
      });
    }

    function makeView(svg) {
      var left = +svg.dataset.from, right = +svg.dataset.to, time = +svg.dataset.time;
      var stretched = svg.querySelectorAll(".stretch"), axes = svg.querySelectorAll(".ticks");
      var points = [].map.call(svg.querySelectorAll("[data-x]"), function (el) {
        return { el: el, x: +el.getAttribute("data-x"), gone: false };
      });
      var first = [].map.call(axes, function (g) { return g.innerHTML; });
      var drawn = "0 1", fingers = new Map();
      svg.setAttribute("tabindex", "0");

      function draw(span) {
        if (drawn === span.join(" ")) return;
        drawn = span.join(" ");
        var whole = span[1] - span[0] >= 1, width = right - left, k = 1 / (span[1] - span[0]);
        function moved(x) { return left + (x - left - span[0] * width) * k; }
        svg.classList.toggle("moved", !whole);
        stretched.forEach(function (g) {
          if (whole) g.removeAttribute("transform");
          else g.setAttribute("transform", "matrix(" + k + " 0 0 1 " + moved(0) + " 0)");
        });
        points.forEach(function (p) {
          var dx = moved(p.x) - p.x, gone = p.x + dx < left - 400 || p.x + dx > right + 400;
          if (gone !== p.gone) { p.el.style.display = gone ? "none" : ""; p.gone = gone; }
          if (!gone) p.el.setAttribute("transform", "translate(" + dx + " 0)");
        });
        axes.forEach(function (g, i) {
          if (whole) g.innerHTML = first[i];
          else axis(g, span[0] * time, span[1] * time);
        });
      }
      function axis(g, from, to) {
        var top = +g.dataset.top, bottom = +g.dataset.bottom, most = +g.dataset.most;
        var raw = (to - from) / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
        var step = [1, 2, 2.5, 5, 10].map(function (f) { return f * power; })
          .find(function (s) { return s >= raw * 0.999; });
        g.textContent = "";
        for (var n = Math.ceil(from / step); n * step <= to; n++) {
          var x = left + (n * step - from) / (to - from) * (right - left);
          var line = document.createElementNS(NS, "line"), text = document.createElementNS(NS, "text");
          set(line, { "class": "grid", x1: x, y1: top, x2: x, y2: bottom });
          text.textContent = micros(n * step, step);
          var over = x + text.textContent.length * 3.5 > right + 8;
          set(text, { "class": "tick", x: over ? right + 8 : x, y: bottom + 18,
            "text-anchor": over ? "end" : "middle" });
          g.append(line, text);
        }
      }

      // The share of the shown time that a pointer is at.
      function share(e) {
        var r = svg.getBoundingClientRect(), unit = r.width / svg.viewBox.baseVal.width;
        return ((e.clientX - r.left) / unit - left) / (right - left);
      }
      svg.addEventListener("wheel", function (e) {
        // The page keeps its wheel until the picture was chosen by a click or a key.
        if (!e.ctrlKey) { if (document.activeElement !== svg) return; }
        e.preventDefault();
        scale(e.deltaY > 0 ? 1.25 : 1 / 1.25, share(e));
      }, { passive: false });
      svg.addEventListener("dblclick", function (e) { scale(1 / 3, share(e)); });
      svg.addEventListener("keydown", function (e) {
        var keys = { "+": "in", "=": "in", "-": "out", "0": "all", ArrowLeft: "left", ArrowRight: "right" };
        var what = keys[e.key];
        if (!what || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        act(what);
      });
      svg.addEventListener("pointerdown", function (e) { fingers.set(e.pointerId, share(e)); });
      // One pointer drags the shown time along, two pinch it.
      svg.addEventListener("pointermove", function (e) {
        if (!fingers.has(e.pointerId)) return;
        var before = [], after = [], now = share(e);
        fingers.forEach(function (at, id) { before.push(at); after.push(id === e.pointerId ? now : at); });
        var width = span[1] - span[0];
        if (before.length === 1 && zoomed()) {
          if (!svg.hasPointerCapture(e.pointerId)) svg.setPointerCapture(e.pointerId);
          show(span[0] - (now - before[0]) * width, span[1] - (now - before[0]) * width);
        } else if (before.length === 2) {
          var gap = Math.abs(after[1] - after[0]) || 0.01;
          scale(Math.abs(before[1] - before[0]) / gap, (after[0] + after[1]) / 2);
        }
        fingers.set(e.pointerId, now);
      });
      ["pointerup", "pointercancel"].forEach(function (name) {
        svg.addEventListener(name, function (e) { fingers.delete(e.pointerId); });
      });
      return { draw: draw, time: time };
    }
  });

  function set(el, attributes) {
    Object.keys(attributes).forEach(function (name) { el.setAttribute(name, attributes[name]); });
  }
  // A time in microseconds with the unit that fits, exact to `step`.
  function micros(us, step) {
    var unit = us >= 999500 ? [1e6, "s"] : us >= 999.5 ? [1e3, "ms"] : [1, "\u00b5s"];
    var value = us / unit[0], digits = 3 - Math.floor(Math.log10(Math.max(1, value))) - 1;
    if (step) digits = Math.ceil(-Math.log10(step / unit[0]) + 0.5);
    return String(+value.toFixed(Math.max(0, Math.min(6, digits)))) + "\u202f" + unit[1];
  }
})();
