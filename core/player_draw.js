// Draws a recorded side-by-side run in its finished state; player.js then moves the clock.
// The run is read from the JSON beside this script, and every text of it goes into the page by textContent: no markup is made of data.
"use strict";

const WRITERS = { d: "draft", c: "copied", t: "target", b: "bonus", p: "plain" };
const INVISIBLE = { "\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5" };
const SVG = "http://www.w3.org/2000/svg";
const HIGH = 24; // px of a track
const NARROW = 4; // px: blocks narrower than this have no gaps between them
const NONE = "\u2013";
const FIGURES = [["tokens", "Tokens"], ["time", "Time"], ["rate", "Tokens/s"], ["first", "First token"]];

const run = JSON.parse(document.getElementById("run").textContent);
const byId = (id) => document.getElementById(id);
const lanes = run.lanes.map((lane) => ({ ...lane, steps: lane.steps.map(step) }));
const end = Math.max(1e-6, ...lanes.map((lane) => lane.end));

// thrown: how many were thrown away, which is not drafted less accepted where the answer ends with a drafted token.
function step([at, drafted, accepted, draft, verify, by, pieces, rejected, thrown]) {
  return { at, drafted, accepted, draft, verify, writers: [...by].map((letter) => WRITERS[letter]), pieces, rejected, thrown };
}

// Small makers of elements and words.

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

function shape(tag, className, attributes) {
  const element = document.createElementNS(SVG, tag);
  if (className) element.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const place = (seconds) => `${(100 * seconds) / end}%`;
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// As many digits as `scale` seconds have, so that a running time keeps its width and unit.
function time(seconds, scale = seconds) {
  if (scale < 0.1) return `${(seconds * 1000).toFixed(scale < 0.01 ? 1 : 0)} ms`;
  return `${seconds.toFixed(scale < 10 ? 2 : scale < 100 ? 1 : 0)} s`;
}

// What ran, what came out, the prompt.

function drawHead() {
  byId("settings").append(make("b", "of-target", run.target), make("b", "of-draft", run.draft), run.settings);
  byId("headline").append(run.headline[0], make("em", run.tone, run.headline[1]));
  byId("facts").textContent = run.facts;
  byId("warning").textContent = run.warning;
  byId("warning").hidden = !run.warning;
  byId("warning").classList.toggle("wrong", run.wrong);
  byId("prompt").hidden = !run.prompt.length;
  for (const [role, text] of run.prompt) {
    const turn = make("div", "turn");
    if (role) turn.append(make("b", "", role));
    turn.append(make("div", "prompt-text", text));
    byId("turns").append(turn);
  }
}

// One clock: a track per lane, a block per step.

function drawTrack(lane) {
  const words = `${lane.name}: ${counted(lane.steps.length, lane.word)} in ${time(lane.end)}`;
  lane.svg = shape("svg", "", { role: "img", "aria-label": words });
  lane.svg.append(shape("rect", "rest", { x: 0, width: place(lane.end), height: HIGH }));
  let start = 0;
  for (const each of lane.steps) {
    lane.svg.append(...blocks(each, start), shape("line", "gap", { x1: place(each.at), x2: place(each.at), y1: 0, y2: HIGH }));
    start = each.at;
  }
  lane.cover = make("div", "cover");
  const label = make("span", "end", lane.steps.length ? time(lane.end) : "not begun");
  label.style.left = place(lane.end);
  label.dataset.seconds = lane.end;
  const [row, track] = [make("div", "row"), make("div", "track")];
  track.append(lane.svg, lane.cover, label);
  row.append(make("span", "", lane.name), track);
  byId("tracks").append(row);
}

function blocks(each, start) {
  const known = each.draft + each.verify;
  const width = each.at - start;
  if (!known) return [shape("rect", "whole", { x: place(start), width: place(width), height: HIGH })];
  const fit = Math.min(1, width / known);
  const draft = shape("rect", "draft", { x: place(start), width: place(each.draft * fit), height: HIGH });
  const verify = shape("rect", "verify", { x: place(start + each.draft * fit), width: place(each.verify * fit), height: HIGH });
  return each.draft ? [draft, verify] : [verify];
}

function drawKeys() {
  const steps = lanes.flatMap((lane) => lane.steps);
  const keys = [["verify", "target step"], ["draft", "draft steps"], ["whole", "step whose parts were not recorded"], ["rest", "rest of the loop"]];
  const used = { verify: steps.some((each) => each.verify), draft: steps.some((each) => each.draft), whole: steps.some((each) => !each.draft && !each.verify) };
  used.rest = used.verify;
  for (const [name, words] of keys.filter(([each]) => used[each])) {
    const key = make("span");
    key.append(make("i", name), words);
    byId("keys").append(key);
  }
}

function drawTicks() {
  const power = 10 ** Math.floor(Math.log10(end / 4));
  const gap = power * [1, 2, 2.5, 5, 10].find((factor) => end / (factor * power) <= 5);
  for (let number = 0; number * gap <= end; number += 1) {
    const tick = make("span", "", `${Number((number * gap).toPrecision(6))} s`);
    tick.style.left = place(number * gap);
    byId("ticks").append(tick);
  }
}

// A column: figures, text, notes, ruler, and what a round threw away.

function drawLane(lane, index) {
  lane.section = make("section", "lane");
  lane.section.dataset.lane = index;
  lane.section.setAttribute("aria-label", lane.name);
  const title = make("h3", "", lane.name);
  title.append(" ", make("small", lane.kind === "plain" ? "of-target" : "", lane.detail));
  lane.counts = make("p", "note");
  lane.shares = make("p", "note");
  lane.section.append(title, figures(lane), answer(lane), lane.counts, lane.shares);
  if (lane.kind !== "plain" && lane.steps.length) lane.section.append(ruler(lane), roundBox(lane));
  byId("lanes").append(lane.section);
}

function figures(lane) {
  const list = make("dl", "figures");
  lane.figures = {};
  for (const [key, label] of FIGURES) {
    const pair = make("div");
    lane.figures[key] = make("dd");
    lane.figures[key].dataset.figure = key;
    lane.figures[key].textContent = NONE;
    pair.append(make("dt", "", label), lane.figures[key]);
    list.append(pair);
  }
  return list;
}

function answer(lane) {
  lane.groups = lane.steps.map(group);
  if (!run.texts) return make("p", "absent", "Texts left out.");
  if (!lane.steps.length) return make("p", "absent", "Nothing was written.");
  const text = make("div", "tk");
  text.dir = "auto";
  text.append(...lane.groups);
  const pick = (event) => {
    const found = event.target.closest("[data-step]");
    if (found) pickRound(lane, Number(found.dataset.step));
  };
  if (lane.kind !== "plain") for (const name of ["pointerover", "click"]) text.addEventListener(name, pick);
  return text;
}

function group(each, index) {
  const all = make("span");
  all.dataset.step = index;
  if (run.texts) all.append(...tokens(each));
  return all;
}

function tokens(each) {
  const spans = each.writers.map((writer, at) => token("span", writer, each.pieces[at]));
  const thrown = each.rejected.map((text) => token("del", "rejected", text.replace(/[\n\r\t]/g, (mark) => INVISIBLE[mark])));
  spans.splice(each.accepted, 0, ...thrown);
  return spans;
}

function token(tag, writer, text) {
  const span = make(tag, writer, text);
  span.dataset.writer = writer;
  return span;
}

function ruler(lane) {
  const bar = make("div", "rl");
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", `${lane.name}: accepted length of each round`);
  lane.rounds = lane.steps.map(roundButton);
  if (lane.rounds.length) lane.rounds[0].tabIndex = 0;
  bar.append(...lane.rounds);
  const pick = (event) => {
    const found = event.target.closest("button");
    if (found) pickRound(lane, Number(found.dataset.round));
  };
  for (const name of ["pointerover", "focusin", "click"]) bar.addEventListener(name, pick);
  bar.addEventListener("keydown", (event) => moveAlong(lane, event));
  return bar;
}

function roundButton(each, index) {
  const button = make("button");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.round = index;
  button.dataset.accepted = each.accepted;
  button.setAttribute("aria-label", roundWords(each, index));
  const thrown = Array(each.thrown).fill("rejected");
  button.append(...[...each.writers, ...thrown].map((writer) => make("i", writer)));
  return button;
}

function roundBox(lane) {
  lane.round = make("div", "round", "Point at a round, or go along with the arrow keys, to see what it proposed.");
  lane.round.tabIndex = 0;
  lane.round.setAttribute("role", "note");
  lane.round.setAttribute("aria-label", "The chosen round");
  return lane.round;
}

function roundWords(each, index) {
  return `Round ${index + 1}: ${each.drafted ? `${each.accepted} of ${counted(each.drafted, "proposed token")} accepted` : "nothing proposed"}`;
}

function drawLegend() {
  const found = new Set(lanes.flatMap((lane) => lane.steps.flatMap((each) => each.writers)));
  if (lanes.some(throws)) found.add("rejected");
  for (const writer of Object.keys(run.labels).filter((each) => found.has(each))) {
    const key = make("span");
    key.append(make("b", writer, "token"), run.labels[writer]);
    byId("legend").append(key);
  }
}

const throws = (lane) => lane.steps.some((each) => each.thrown);

function draw() {
  drawHead();
  drawKeys();
  lanes.forEach(drawTrack);
  drawTicks();
  drawLegend();
  byId("lanes").style.setProperty("--columns", lanes.length);
  lanes.forEach(drawLane);
  byId("switch").hidden = !run.texts || !lanes.some(throws);
  byId("race-title").textContent = lanes.length === 2 ? "Both runs on one clock" : "All runs on one clock";
}
