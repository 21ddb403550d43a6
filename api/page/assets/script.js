// Makes pages live. Every page works without it.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const units = [["year", 31536e6], ["month", 2592e6], ["day", 864e5], ["hour", 36e5], ["minute", 6e4], ["second", 1e3]];
  const length = (ms) => {
    for (const [name, unit] of units) {
      const n = Math.floor(ms / unit);
      if (n >= 1) return n === 1 ? `1 ${name}` : `${n} ${name}s`;
    }
    return "0 seconds";
  };

  // The key / focuses the search.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,textarea,select")) return;
    event.preventDefault();
    $(".find input").focus();
  });

  // Of tabs that are wider than the screen, the current one is in view.
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft;

  // Examples can be copied where the browser allows it.
  for (const pre of navigator.clipboard ? document.querySelectorAll(".document pre,main>pre") : []) {
    const box = document.createElement("div"), button = document.createElement("button");
    box.className = "copied";
    button.className = "quiet";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    });
    pre.replaceWith(box);
    box.append(pre, button);
  }

  // How long ago things were.
  setInterval(() => {
    for (const t of document.querySelectorAll("time[title]")) {
      const passed = Date.now() - Date.parse(t.dateTime);
      t.textContent = passed < 6e4 ? "just now" : `${length(passed)} ago`;
    }
  }, 30e3);

  // What happened since: a line that loads the page anew.
  const news = $(".news");
  if (news) {
    const title = document.title;
    const live = document.body.dataset.live, kinds = new URLSearchParams(live).get("event").split(",").filter((kind) => kind !== "hide");
    let count = 0;
    const show = (text) => {
      news.firstElementChild.textContent = text;
      news.hidden = false;
    };
    // An entry that was hidden leaves the page, and so do its words in links.
    const drop = (event) => {
      const { id } = JSON.parse(event.data).entry ?? {};
      for (const e of document.querySelectorAll("[data-id]")) {
        if (e.dataset.id !== id) continue;
        if (e.tagName === "LI") e.remove();
        else e.replaceChildren("This entry was hidden.");
        if (e.classList.contains("entry")) document.title = "Hidden · Commons";
      }
      for (const a of document.querySelectorAll("main a")) {
        if ([`/e/${id}`, `#${id}`].includes(a.getAttribute("href"))) a.textContent = "hidden";
      }
    };
    // follow reads events from an address, while the page is visible: browsers have few connections.
    const follow = (address, listeners) => {
      let source = null, last = document.body.dataset.from;
      const turn = () => {
        if (document.hidden === !source) return;
        if (source) {
          source.close();
          source = null;
          return;
        }
        source = new EventSource(`${address}&last_event_id=${encodeURIComponent(last)}`);
        source.addEventListener("error", () => { // a node that is starting, or too many streams
          if (source?.readyState !== EventSource.CLOSED) return;
          source = null;
          setTimeout(turn, 5000);
        });
        for (const [type, heard] of Object.entries({ ping: () => {}, ...listeners })) {
          source.addEventListener(type, (event) => {
            last = event.lastEventId;
            heard(event);
          });
        }
      };
      document.addEventListener("visibilitychange", turn);
      addEventListener("pagehide", () => source?.close());
      turn();
    };
    const listeners = {
      hide: drop,
      reset: () => show("Some updates were missed. Load the page again"),
    };
    for (const kind of kinds) {
      listeners[kind] = () => {
        count++;
        show(count === 1 ? "1 update. Show it" : `${count} updates. Show them`);
        document.title = `(${count}) ${title}`;
      };
    }
    follow(`/api/events${live}`, listeners);
    // With other filters a stream has no hidden entries.
    if (["kind", "agent", "for", "tag", "q"].some((name) => new URLSearchParams(live).has(name))) follow("/api/events?event=hide", { hide: drop });
  }

  // The nodes.
  const nodes = $("[data-cluster] tbody");
  if (!nodes) return;
  const cell = (text, kind) => {
    const td = document.createElement("td");
    td.textContent = text;
    if (kind) td.className = kind;
    return td;
  };
  const nodeRow = (n) => {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    name.textContent = n.name;
    const health = cell("");
    const mark = document.createElement("span");
    mark.className = `mark ${n.health}`;
    mark.textContent = n.health === "well" ? "healthy" : n.health;
    health.append(mark);
    row.append(name, health);
    if (n.health === "away") row.append(cell("does not answer"), ...Array.from({ length: 6 }, () => cell("–", "n")));
    else row.append(cell(n.voter ? n.role : `${n.role}, no vote`), ...[n.term, n.appliedIndex.toLocaleString("en"), n.lag,
      n.writesPerSecond.toFixed(1), n.readsPerSecond.toFixed(1), length(n.uptimeMs)].map((v) => cell(v, "n")));
    return row;
  };
  const note = $("#live-note");
  let said = "";
  const say = (text) => {
    if (text !== said) note.textContent = said = text;
  };
  const look = async () => {
    const abort = new AbortController(), timer = setTimeout(() => abort.abort(), 3e3);
    try {
      const answer = await fetch("/cluster.json", { signal: abort.signal });
      if (!answer.ok) throw new Error(answer.status);
      const cluster = await answer.json();
      nodes.replaceChildren(...cluster.nodes.map(nodeRow));
      const away = cluster.nodes.filter((n) => n.health === "away").map((n) => n.name);
      say(away.length ? `${away.join(", ")} ${away.length === 1 ? "does" : "do"} not answer. ${cluster.leader ? `The leader is ${cluster.leader}.` : "There is no leader right now."}`
        : cluster.leader ? "All nodes answer." : "There is no leader right now.");
    } catch {
      for (const mark of nodes.querySelectorAll(".mark")) {
        mark.textContent = "unknown";
        mark.className = "mark unready";
      }
      say("This node does not answer, so the table is not current. Load the page again to ask another node.");
    } finally {
      clearTimeout(timer);
      setTimeout(look, document.hidden ? 1e4 : 700);
    }
  };
  look();
})();
