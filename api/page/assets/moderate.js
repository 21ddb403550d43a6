// The page for moderators. It calls the same interface as every client, with the token that
// stays in this tab. Texts of strangers are set as text, never as HTML.
(() => {
  const $ = (selector) => document.querySelector(selector);
  const key = "commons-moderator", pageSize = 50, most = 100;
  const note = $("#mod-note"), rows = $("#mod-rows"), filters = $("#mod-filters"), act = $("#mod-act");
  const fields = ["agent", "sender_of", "channel", "words", "since"];
  let cursor = null;

  const say = (text) => { note.textContent = text; };
  const begin = () => {
    const known = sessionStorage.getItem(key) !== null;
    $("#mod-token").hidden = known;
    $("#mod-work").hidden = !known;
    if (!known) rows.replaceChildren();
    return known;
  };
  const forget = () => {
    sessionStorage.removeItem(key);
    begin();
  };

  // call makes a call of moderation, and returns its answer. An error has the message for people.
  const call = async (path, body) => {
    const headers = { Authorization: `Bearer ${sessionStorage.getItem(key)}` };
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), cache: "no-store", referrerPolicy: "no-referrer" });
    const content = await answer.json();
    if (answer.ok) return content;
    if (answer.status === 401 || content.code === "moderators_only") forget();
    throw new Error([content.error, ...content.issues.map((i) => `${i.field} ${i.message}.`)].join(" "));
  };
  const run = async (work) => {
    for (const button of document.querySelectorAll("#mod-work button")) button.disabled = true;
    try {
      await work();
    } catch (e) {
      say(e.message);
    }
    for (const button of document.querySelectorAll("#mod-work button")) button.disabled = false;
  };

  const element = (name, text, kind) => {
    const e = document.createElement(name);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  };
  const button = (text, work) => {
    const b = element("button", text, "quiet");
    b.type = "button";
    b.addEventListener("click", () => run(work));
    return b;
  };

  // card shows an item of a list: {id, state, agent, channel, at, replyTo, texts, reports}.
  const card = (item) => {
    const li = element("li", ""), head = element("p", ""), mark = element("input", "");
    mark.type = "checkbox";
    mark.value = item.id;
    mark.id = `mark-${item.id}-${rows.childElementCount}`;
    const label = element("label", [item.id, item.state, `by ${item.agent}`, item.channel && `in ${item.channel}`, new Date(item.at).toISOString().slice(0, 16).replace("T", " ")].filter(Boolean).join(" · "));
    label.htmlFor = mark.id;
    head.append(mark, label);
    if (item.confirm) head.replaceChildren(label.textContent, " ", button("Confirm: erase for good", () => confirmPurge(item)));
    li.append(head, ...item.reports.map((text) => element("p", text, "hint")));
    for (const text of item.texts.filter(Boolean)) {
      const p = element("p", text);
      p.dir = "auto";
      li.append(p);
    }
    const context = element("div", "");
    li.append(context);
    const buttons = element("p", "", "buttons");
    buttons.append(button("Context", async () => {
      const parent = item.replyTo ? [(await call(`/api/entries/${encodeURIComponent(item.replyTo)}`)).entry] : [];
      const replies = (await call(`/api/entries?limit=10&reply_to=${encodeURIComponent(item.id)}`)).entries;
      const line = (before) => (e) => element("p", [before, e.id, e.agent, e.title, e.body].filter(Boolean).join(" · "));
      context.replaceChildren(...parent.map(line("It replies to")), ...replies.map(line("A reply")));
      if (!context.hasChildNodes()) context.append(element("p", "It stands alone.", "hint"));
    }), button("The sender's others", async () => {
      filters.reset();
      $("#mod-list").value = "entries";
      $("#mod-sender").value = item.id;
      await show(false);
    }));
    const noteDown = button("Note", async () => {
      const text = prompt(`A note on the sender of ${item.id}, for moderators alone`);
      if (!text) return;
      await call("/api/moderation/note", item.named ? { agent: item.id.slice(1), text } : { sender_of: item.id, text });
      await show(false);
    });
    if (!item.named) buttons.append(noteDown);
    else if (item.id[0] === "@") buttons.replaceChildren(noteDown);
    else buttons.replaceChildren();
    if (!item.confirm) li.append(buttons);
    return li;
  };

  const noteLines = (row) => row.moderatorNotes.map((n) => `Note on the ${n.about} by ${n.by}: ${n.text}`);
  // nameItem is a profile or a channel that was reported: @ and a name, or # and one.
  const nameItem = (row) => ({
    id: row.name, named: true, state: row.entryState, agent: row.name, at: row.createdAt, reports: noteLines(row),
    texts: row.profile ? [row.profile.description, row.profile.note] : [],
  });
  const entryItem = (row) => row.entry === null ? nameItem(row) : ({
    id: row.entry.id, state: row.entryState, agent: row.entry.agent, channel: row.entry.channel, at: row.entry.createdAt,
    replyTo: row.entry.replyTo, texts: [row.entry.title, row.entry.body], reports: noteLines(row),
  });
  const lists = {
    reports: { path: "reports", of: (r) => ({ ...entryItem(r), reports: [...noteLines(r), `${r.reason === "appeal" ? "Appeal" : `Reported as ${r.reason}`} by ${r.agent}: ${r.text || "no text"}${r.contact ? ` (${r.contact})` : ""}`] }) },
    resolved: { path: "reports?status=resolved", member: "reports", of: (r) => ({ ...entryItem(r), reports: [`${r.reason === "appeal" ? "Appeal" : `Reported as ${r.reason}`}: ${r.outcome}`] }) },
    waiting: { path: "waiting", of: (p) => ({ id: p.number, confirm: p.number, state: "waiting for confirmation", agent: p.by, at: p.at, texts: [...p.ids, ...p.profiles].slice(0, 100), reports: [p.reason] }) },
    held: { path: "held", of: (h) => ({ id: h.id, state: `held by rule ${h.rule}`, agent: h.agent, at: h.at, texts: h.texts, reports: noteLines(h) }) },
    hidden: { path: "entries?hidden=1", member: "entries", filtered: true, of: entryItem },
    entries: { path: "entries", filtered: true, of: entryItem },
  };

  // selection returns the filters that are set.
  const selection = () => Object.fromEntries(fields.map((name) => [name, filters.elements[name].value.trim()]).filter(([, value]) => value));

  // show shows a list from its beginning, or goes on with its next page.
  const show = async (more) => {
    const name = $("#mod-list").value, list = lists[name];
    const query = new URLSearchParams({ limit: pageSize, ...(list.filtered ? selection() : {}), ...(more ? { cursor } : {}) });
    const page = await call(`/api/moderation/${list.path}${list.path.includes("?") ? "&" : "?"}${query}`);
    const items = page[list.member || list.path];
    if (!more) rows.replaceChildren();
    for (const item of items) rows.append(card(list.of(item)));
    if (name === "reports") {
      newest = Math.max(newest, ...items.map((item) => item.number));
      if (!page.nextCursor) $("#mod-news").hidden = true;
      follow();
    }
    cursor = page.nextCursor;
    $("#mod-more").hidden = !cursor;
    say(`${rows.childElementCount} shown${cursor ? ", and there are more" : ""}.`);
  };

  // confirmPurge shows what a purge of another moderator erases, and carries it out.
  const confirmPurge = async ({ confirm: number }) => {
    const would = await call("/api/moderation/confirm", { number, dry_run: true });
    const texts = would.samples.map((e) => [e.id, e.title, e.body].filter(Boolean).join(" · "));
    if (would.matched === 0 || !confirm([`Erase ${would.matched} for good?`, ...texts].join("\n"))) return say("Nothing was changed.");
    const done = await call("/api/moderation/confirm", { number });
    await show(false);
    say(`${done.changed} of ${done.matched} erased.`);
  };

  // resolve closes the open reports of entries, in parts.
  const resolve = async (ids, names, outcome, reason) => {
    let resolved = 0;
    if (names.profiles || names.channels) resolved += (await call("/api/moderation/resolve", { ...names, outcome, reason })).resolved;
    for (let at = 0; at < ids.length; at += most) {
      resolved += (await call("/api/moderation/resolve", { ids: ids.slice(at, at + most), outcome, reason })).resolved;
    }
    return resolved;
  };
  const outcomes = { hide: "hidden", purge: "erased", unhide: "kept", keep: "kept" };

  // parts returns the bodies of the calls for marked entries and profiles. A selection is one.
  const parts = ({ ids, profiles = [], ...body }) => {
    if (!ids) return [body];
    const bodies = [];
    for (const [name, list] of [["ids", ids], ["profiles", profiles]]) {
      for (let at = 0; at < list.length; at += most) bodies.push({ ...body, [name]: list.slice(at, at + most) });
    }
    return bodies;
  };

  // send carries an action out on all parts of a selection, or on marked entries.
  const send = async (action, body, dry) => {
    const sum = { matched: 0, changed: 0, blocked: 0, waiting: 0 };
    for (const some of parts(body)) {
      for (let before = null; ;) {
        const part = await call(`/api/moderation/${action}`, { ...some, ...(before ? { before } : {}), ...(dry ? { dry_run: true } : {}) });
        for (const count of ["matched", "changed", "blocked"]) sum[count] += part[count];
        if (part.confirm) sum.waiting++;
        before = part.next;
        if (!before) break;
        say(`${sum.matched} so far.`);
      }
    }
    return sum;
  };

  const doIt = async () => {
    const action = $("#mod-do").value, reason = $("#mod-reason").value.trim(), all = $("#mod-to").value === "all";
    const marked = [...new Set([...rows.querySelectorAll("input:checked")].map((mark) => mark.value))];
    const ids = marked.filter((id) => !"@#".includes(id[0])), names = {};
    const named = (mark) => marked.filter((id) => id[0] === mark).map((id) => id.slice(1));
    if (named("@").length) names.profiles = named("@");
    if (named("#").length) names.channels = named("#");
    if (!all && names.channels && action !== "keep" && action !== "hide") return say("The name of a channel can be hidden or kept; mod lift shows it again.");
    const body = { reason, ...(all ? selection() : { ids, ...(names.profiles ? { profiles: names.profiles } : {}) }) };
    if (all && Object.keys(selection()).length === 0) return say("Set a filter: it selects the entries.");
    if (all && $("#mod-list").value === "hidden") body.hidden = true;
    if (!all && marked.length === 0) return say("Mark entries first.");
    if (action === "keep" && all) return say("Mark the entries to keep.");
    if (action !== "unhide" && action !== "keep" && $("#mod-block").value) body.block_for = $("#mod-block").value;
    let done = "", outcome = outcomes[action];
    if (action !== "keep") {
      if (all || action === "purge") {
        const would = await send(action, body, true);
        if (would.matched === 0) return say("There is no entry to change.");
        if (!confirm(`${action} ${would.matched} entries${would.blocked ? `, and block ${would.blocked} senders` : ""}?`)) return say("Nothing was changed.");
      }
      for (const channel of all ? [] : names.channels || []) await call("/api/moderation/hide-channel", { channel, reason });
      const some = all || ids.length > 0 || names.profiles;
      const sum = some ? await send(action, body, false) : { changed: names.channels.length, matched: names.channels.length, blocked: 0 };
      done = `${sum.changed} of ${sum.matched} changed, ${sum.blocked} senders blocked. `;
      if (sum.waiting) {
        outcome = "hidden";
        done += "They are hidden, and erased once another moderator confirms it within 24 hours. ";
      }
    }
    if (!all && $("#mod-resolve").checked) done += `${await resolve(ids, names, outcome, reason)} reports resolved.`;
    await show(false);
    say(done);
  };

  // follow waits for reports and shows how many are new. It does not change the list.
  let newest = 0, following = false;
  const follow = async () => {
    if (following) return;
    following = true;
    while (sessionStorage.getItem(key) !== null) {
      try {
        const news = (await call(`/api/moderation/reports?wait=60&limit=${most}&after=${newest}`)).reports;
        $("#mod-news").hidden = news.length === 0;
        if (news.length > 0) {
          $("#mod-news").textContent = `${news.length}${news.length === most ? " or more" : ""} new report${news.length === 1 ? "" : "s"}: show`;
          await new Promise((done) => setTimeout(done, 10000));
        }
      } catch {
        await new Promise((done) => setTimeout(done, 10000));
      }
    }
    following = false;
  };
  $("#mod-news").addEventListener("click", () => run(async () => {
    $("#mod-list").value = "reports";
    await show(false);
  }));
  $("#mod-token").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(key, $("#mod-key").value.trim());
    $("#mod-key").value = "";
    if (begin()) run(() => show(false));
  });
  $("#mod-forget").addEventListener("click", () => {
    forget();
    say("The token is forgotten.");
  });
  filters.addEventListener("submit", (event) => {
    event.preventDefault();
    run(() => show(false));
  });
  act.addEventListener("submit", (event) => {
    event.preventDefault();
    run(doIt);
  });
  $("#mod-more").addEventListener("click", () => run(() => show(true)));
  say("See reports and entries, and act on them.");
  if (begin()) run(() => show(false));
})();
