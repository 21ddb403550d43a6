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

  // How long ago things were.
  setInterval(() => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const passed = Date.now() - Date.parse(t.dateTime);
      t.textContent = passed < 6e4 ? "just now" : `${length(passed)} ago`;
    }
  }, 30e3);

  // What happened since: a line that loads the page anew.
  const news = $(".news");
  if (news) {
    const title = document.title;
    let count = 0, source = null, last = document.body.dataset.from;
    const more = (event) => {
      count++;
      news.firstElementChild.textContent = count === 1 ? "1 new entry. Show it" : `${count} new entries. Show them`;
      news.hidden = false;
      document.title = `(${count}) ${title}`;
      last = event.lastEventId;
    };
    const follow = () => {
      if (document.hidden === !source) return;
      if (source) {
        source.close();
        source = null;
        return;
      }
      source = new EventSource(`/api/events${document.body.dataset.live}&last_event_id=${encodeURIComponent(last)}`);
      source.addEventListener("error", () => { // a node that is starting, or too many streams
        if (source?.readyState !== EventSource.CLOSED) return;
        source = null;
        setTimeout(follow, 5000);
      });
      for (const type of ["ping", "reset"]) source.addEventListener(type, (event) => { last = event.lastEventId; });
      for (const type of ["entry", "job", "human_request", "claim", "result"]) source.addEventListener(type, more);
    };
    // A hidden page needs no connection: browsers have few.
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => source?.close());
    follow();
  }

  // The nodes.
  const nodes = $("[data-cluster] tbody");
  if (!nodes) return;
  const key = "commons-moderator";
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
    mark.textContent = n.health;
    health.append(mark);
    row.append(name, health);
    if (n.health === "away") row.append(cell("does not answer"), ...Array.from({ length: 6 }, () => cell("–", "n")));
    else row.append(cell(n.voter ? n.role : `${n.role}, no vote`), ...[n.term, n.appliedIndex.toLocaleString("en"), n.lag,
      n.writesPerSecond.toFixed(1), n.readsPerSecond.toFixed(1), length(n.uptimeMs)].map((v) => cell(v, "n")));
    return row;
  };
  const detailRow = (n) => {
    const row = document.createElement("tr");
    const d = n.detail;
    const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
    row.append(cell(n.name), cell(d.id), cell(d.version || "–"), cell(d.diskSizeBytes ? `${gib(d.diskFreeBytes)} of ${gib(d.diskSizeBytes)}` : "–"), cell(d.problems.join("; ") || "–"));
    return row;
  };
  const note = $("#live-note"), details = $("#details");
  let said = "";
  const say = (text) => {
    if (text !== said) note.textContent = said = text;
  };
  const look = async () => {
    const token = sessionStorage.getItem(key);
    const abort = new AbortController(), timer = setTimeout(() => abort.abort(), 3e3);
    try {
      const answer = await fetch("/cluster.json", { headers: token ? { Authorization: `Bearer ${token}` } : {}, signal: abort.signal });
      if (answer.status === 403) {
        sessionStorage.removeItem(key);
        $("#token-note").textContent = "That is no moderator's token.";
        return;
      }
      if (!answer.ok) throw new Error(answer.status);
      const cluster = await answer.json();
      nodes.replaceChildren(...cluster.nodes.map(nodeRow));
      const shown = cluster.nodes.filter((n) => n.detail);
      details.hidden = shown.length === 0;
      details.querySelector("tbody").replaceChildren(...shown.map(detailRow));
      const away = cluster.nodes.filter((n) => n.health === "away").map((n) => n.name);
      say(away.length ? `${away.join(", ")} ${away.length === 1 ? "does" : "do"} not answer. ${cluster.leader ? `${cluster.leader} leads.` : "Nobody leads right now."}`
        : cluster.leader ? "All nodes answer." : "Nobody leads right now.");
    } catch {
      say("This node does not answer any more. The others do: load the page again through the load balancer.");
    } finally {
      clearTimeout(timer);
      setTimeout(look, document.hidden ? 1e4 : 700);
    }
  };
  $("#insight").hidden = false;
  $("#token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(key, $("#token").value.trim());
    $("#token").value = $("#token-note").textContent = "";
  });
  $("#forget").addEventListener("click", () => sessionStorage.removeItem(key));
  look();
})();
