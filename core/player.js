// The clock of the replay. All lanes start at 0, the beginning of each call; a step is on the page once the clock has reached
// its recorded time. Room for the whole text is kept from the start, so that nothing moves while it plays.

const STILL_MS = 250; // between two pictures for readers who asked for less motion

const main = byId("player");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const state = { clock: end, speed: 1, playing: false, from: 0, since: 0, drawn: 0 };

// Totals of a lane after each number of steps, from none to all.
function running(lane) {
  const totals = [{ at: 0, tokens: 0, drafted: 0, accepted: 0, ended: 0, draft: 0, verify: 0 }];
  for (const each of lane.steps) {
    const before = totals[totals.length - 1];
    totals.push({
      at: each.at,
      tokens: before.tokens + each.writers.length,
      drafted: before.drafted + each.drafted,
      accepted: before.accepted + each.accepted,
      ended: before.ended + (each.thrown > 0),
      draft: before.draft + each.draft,
      verify: before.verify + each.verify,
    });
  }
  return totals;
}

function written(lane, clock) {
  let low = 0;
  let high = lane.steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.steps[middle].at <= clock) low = middle + 1;
    else high = middle;
  }
  return low;
}

function show(clock) {
  state.clock = clock;
  main.dataset.clock = clock;
  for (const lane of lanes) showLane(lane, clock);
  byId("clock").value = Math.round((1000 * clock) / end);
  byId("clock").setAttribute("aria-valuetext", `${time(clock, end)} of ${time(end)}`);
}

function showLane(lane, clock) {
  const before = lane.written;
  const now = written(lane, clock);
  for (let index = Math.min(before, now); index < Math.max(before, now); index += 1) {
    lane.groups[index].classList.toggle("ahead", index >= now);
    lane.rounds?.[index].classList.toggle("ahead", index >= now);
  }
  lane.groups[before - 1]?.classList.remove("now");
  if (now < lane.steps.length) lane.groups[now - 1]?.classList.add("now");
  lane.written = now;
  lane.section.dataset.written = now;
  lane.cover.style.left = place(clock);
  if (lane.steps.length) showFigures(lane, Math.min(clock, lane.end), lane.totals[now]);
}

function showFigures(lane, seconds, total) {
  const rate = seconds > 0 ? total.tokens / seconds : 0;
  const first = lane.written ? lane.steps[0].at : null;
  figure(lane, "tokens", total.tokens, seconds < lane.end ? `${total.tokens} of ${lane.tokens}` : `${total.tokens}`);
  figure(lane, "time", seconds, time(seconds, lane.end));
  figure(lane, "rate", rate, rate.toFixed(rate < 100 ? 1 : 0));
  figure(lane, "first", first ?? "", first === null ? NONE : time(first));
  lane.counts.textContent = countWords(lane, total);
  lane.shares.textContent = shareWords(total, seconds < lane.end ? total.at : lane.end);
}

function figure(lane, key, value, text) {
  lane.figures[key].dataset.value = value;
  lane.figures[key].textContent = text;
}

function countWords(lane, total) {
  if (lane.kind === "plain") return `${counted(lane.written, lane.word)}, one token each`;
  const per = lane.written ? (total.tokens / lane.written).toFixed(2) : "0";
  return `${counted(lane.written, lane.word)}, ${per} tokens per round; ${proposedWords(total)}`;
}

// An examined token is an accepted one, or the first wrong one of a round; what stands behind that was never looked at.
function proposedWords(total) {
  if (!total.drafted) return "nothing proposed";
  const examined = total.accepted + total.ended;
  const acceptance = examined ? `acceptance ${(total.accepted / examined).toFixed(2)}, ` : "";
  const rates = `${acceptance}utilisation ${(total.accepted / total.drafted).toFixed(2)}`;
  return `${counted(total.drafted, "token")} proposed, ${examined} examined, ${total.accepted} accepted: ${rates}`;
}

function shareWords(total, seconds) {
  if (!(total.draft + total.verify) || !seconds) return "";
  const [draft, verify] = [total.draft, total.verify].map((part) => Math.round((100 * part) / seconds));
  return `${total.draft ? `draft ${draft} %, verify` : "target"} ${verify} %, rest ${100 - draft - verify} % of the time`;
}

// Rounds.

function moveAlong(lane, event) {
  const at = Number(event.target.dataset.round);
  const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: lane.written - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (to >= 0 && to < lane.written) lane.rounds[to].focus();
}

function pickRound(lane, index) {
  if (lane.picked === index) return;
  if (lane.picked !== undefined) mark(lane, lane.picked, false);
  lane.picked = index;
  mark(lane, index, true);
  lane.round.replaceChildren(`${roundWords(lane.steps[index], index)}. `);
  lane.round.dataset.round = index;
  if (!run.texts) return;
  const text = make("span", "tk");
  text.append(...tokens(lane.steps[index]));
  lane.round.append(text);
}

function mark(lane, index, on) {
  lane.groups[index].classList.toggle("picked", on);
  lane.rounds[index].classList.toggle("picked", on);
  lane.rounds[0].tabIndex = -1;
  lane.rounds[index].tabIndex = on ? 0 : -1;
}

// Playing.

function settle(name) {
  state.playing = name === "playing";
  main.dataset.state = name;
  byId("play-label").textContent = { playing: "Pause", paused: "Resume", finished: "Replay" }[name];
}

function play() {
  hold();
  if (state.clock >= end) show(0);
  byId("status").textContent = "";
  settle("playing");
  anchor();
  requestAnimationFrame(frame);
}

function anchor() {
  state.from = state.clock;
  state.since = performance.now();
}

function frame(now) {
  if (!state.playing) return;
  const clock = state.from + (Math.max(0, now - state.since) / 1000) * state.speed;
  if (clock >= end) {
    finish();
    return;
  }
  if (!still.matches || now - state.drawn >= STILL_MS) {
    state.drawn = now;
    show(clock);
  }
  requestAnimationFrame(frame);
}

function finish() {
  show(end);
  settle("finished");
  const each = lanes.map((lane) => `${lane.name}: ${counted(lane.tokens, "token")} in ${time(lane.end)}`);
  byId("status").textContent = `Finished. ${each.join("; ")}.`;
}

function seek() {
  hold();
  show((end * Number(byId("clock").value)) / 1000);
  if (state.playing) anchor();
  else settle(state.clock >= end ? "finished" : "paused");
}

function setSpeed(value) {
  if (state.playing) anchor();
  state.speed = Number(value);
  main.dataset.speed = value;
}

// Notes keep the height they have at the end, however short they are on the way.
function hold() {
  if (state.clock < end) return;
  for (const lane of lanes) for (const note of [lane.counts, lane.shares]) note.style.minHeight = `${note.getBoundingClientRect().height}px`;
}

function fit() {
  for (const lane of lanes) {
    const width = (lane.svg.clientWidth * lane.end) / end / Math.max(1, lane.steps.length);
    lane.svg.classList.toggle("dense", width < NARROW);
    lane.counts.style.minHeight = lane.shares.style.minHeight = "";
  }
}

function listen() {
  byId("play").addEventListener("click", () => (state.playing ? settle("paused") : play()));
  byId("clock").addEventListener("input", seek);
  byId("rejected").addEventListener("change", (event) => {
    main.dataset.rejected = event.target.checked ? "shown" : "hidden";
  });
  for (const radio of document.getElementsByName("speed")) radio.addEventListener("change", () => setSpeed(radio.value));
  addEventListener("resize", fit);
}

draw();
for (const lane of lanes) {
  lane.totals = running(lane);
  lane.written = 0;
}
Object.assign(main.dataset, { end, speed: state.speed, rejected: "hidden" });
fit();
show(end);
settle("finished");
listen();
