// Returns what is wrong with the page for people with a keyboard, a screen reader or
// weak eyes: a list of texts.
(() => {
  const wrong = [];
  const seen = (e) => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true }) && e.getClientRects().length > 0;
  const label = (e) => `<${e.tagName.toLowerCase()}${e.id ? ` id=${e.id}` : ""}${e.className && e.className.baseVal === undefined ? ` class="${e.className}"` : ""}> "${e.textContent.trim().slice(0, 40)}"`;

  // Landmarks, language, title, headings.
  if (document.documentElement.lang !== "en") wrong.push("no language");
  if (!document.title.trim()) wrong.push("no title");
  for (const [landmark, want] of [["main", 1], ["body > header", 1], ["body > footer", 1], ["h1", 1]]) {
    const n = document.querySelectorAll(landmark).length;
    if (n !== want) wrong.push(`${n} of ${landmark}`);
  }
  let level = 0;
  for (const h of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    if (!h.checkVisibility()) continue;
    const n = Number(h.tagName[1]);
    if (n > level + 1) wrong.push(`a heading of level ${n} behind one of ${level}: ${label(h)}`);
    if (!h.textContent.trim()) wrong.push(`an empty heading: ${label(h)}`);
    level = n;
  }
  const names = [...document.querySelectorAll("nav")].map((n) => n.getAttribute("aria-label"));
  if (new Set(names).size !== names.length || names.includes(null)) wrong.push(`navigations named ${names}`);

  // Ids that stand twice, and references to nothing.
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids.filter((id, i) => ids.indexOf(id) !== i)) wrong.push(`the id ${id} stands twice`);
  for (const e of document.querySelectorAll("[aria-labelledby],[for]")) {
    const id = e.getAttribute("aria-labelledby") || e.getAttribute("for");
    if (!document.getElementById(id)) wrong.push(`${label(e)} refers to ${id}, which is not there`);
  }

  // Names of controls and pictures.
  const name = (e) => (e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join(" ")) ||
    (e.tagName === "INPUT" || e.tagName === "TEXTAREA" || e.tagName === "SELECT" ? "" : e.textContent)).trim();
  for (const e of document.querySelectorAll("a[href],button,input:not([type=hidden]),select,textarea,summary,[role=region],svg[role=img]")) {
    if (!name(e)) wrong.push(`no name: ${e.outerHTML.slice(0, 120)}`);
  }
  for (const e of document.querySelectorAll("svg:not([aria-hidden]):not([role])")) wrong.push(`a picture without a role: ${e.outerHTML.slice(0, 80)}`);
  for (const e of document.querySelectorAll("[tabindex]")) if (Number(e.getAttribute("tabindex")) > 0) wrong.push(`a tab order of its own: ${label(e)}`);
  for (const e of document.querySelectorAll("table")) if (!e.querySelector("th")) wrong.push("a table without headings");

  // Contrast: 4.5:1, of large text 3:1.
  const parse = (c) => {
    const m = c.match(/[\d.]+/g).map(Number);
    return { r: m[0], g: m[1], b: m[2], a: m[3] === undefined ? 1 : m[3] };
  };
  const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 });
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = (c) => [c.r, c.g, c.b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const e = text.parentElement;
    if (!text.data.trim() || done.has(e) || !seen(e) || e.closest("svg,script,style")) continue;
    done.add(e);
    const style = getComputedStyle(e), ground = behind(e), ink = over(parse(style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`contrast ${ratio.toFixed(2)}: ${label(e)}`);
    if (size < 11) wrong.push(`text of ${size} px: ${label(e)}`);
  }

  // Nothing wider than the screen.
  if (document.documentElement.scrollWidth > innerWidth) {
    const widest = [...document.querySelectorAll("body *")].filter((e) => seen(e) && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll,pre,table"));
    wrong.push(`wider than the screen by ${document.documentElement.scrollWidth - innerWidth}: ${widest.slice(0, 3).map(label).join(", ")}`);
  }
  // No word of a control is broken: its letters stand in one line.
  for (const e of document.querySelectorAll("button,.button,label,.tabs a,.top nav a")) {
    const r = document.createRange(), text = e.firstChild;
    const word = text?.nodeType === Node.TEXT_NODE && text.data.match(/^\s*\S+/);
    if (!word || !seen(e)) continue;
    r.setStart(text, word[0].search(/\S/));
    r.setEnd(text, word[0].length);
    if (new Set([...r.getClientRects()].map((b) => b.top)).size > 1) wrong.push(`a broken word: ${label(e)}`);
  }
  // What is pressed with a finger is 24 px high, except links within a text. Nothing else is pressed within a summary.
  for (const e of document.querySelectorAll("summary :is(a,button,input)")) wrong.push(`pressed within a summary: ${label(e)}`);
  for (const e of document.querySelectorAll("button,input:not([type=hidden]),select,summary,nav a,.meta a,.foot a,.also a,.margin a,.more a,.tabs a,main li > a,:is(h2,h3) a,.chips a")) {
    const r = e.getBoundingClientRect();
    if (seen(e) && r.height > 0 && r.left >= 0 && r.height < 24) wrong.push(`only ${r.height} px high: ${label(e)}`);
  }
  return wrong;
})()
