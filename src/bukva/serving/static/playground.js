// Two columns, each with a model: it scores the text while somebody types, and continues it. What a column asks for
// replaces what it asked for before.
const form = document.getElementById("form");
const text = document.getElementById("text");
const behind = document.getElementById("behind"); // the same text as in the box, in colours
const stop = document.getElementById("stop");
const levels = form.dataset.levels.split(" ").map(Number); // bits from which a character has the next colour
const PAUSE = 150; // milliseconds without a key after which the text is scored
const LONG = 500; // milliseconds after which a model is being loaded

const settings = () =>
  Object.fromEntries([...form.querySelectorAll(".settings input")].map((input) => [input.name, input.valueAsNumber]));
// While models learn, the text in the box is learned from as they read it, and it stays learned when another one takes its
// place. It is kept in this page alone; the server forgets it after each answer.
const learn = document.getElementById("learn");
const again = document.getElementById("again");
const forget = document.getElementById("forget");
const MOST_LEARNED = 100; // texts, of which the server takes so many
let learned = []; // texts from which models have learned before the one in the box
let shown = text.value; // what the box had last
function remember(typed) {
  if (typed) learned = [...learned, typed].slice(-MOST_LEARNED);
}
function updateLearned() {
  const n = learned.reduce((total, typed) => total + typed.length, 0);
  again.disabled = !learn.checked;
  forget.disabled = !learned.length;
  document.getElementById("learned").textContent = n ? `Learned from ${n} characters before this text.` : "";
}
const request = (model) => ({ model, text: text.value, learned: learn.checked ? learned : null });
const sum = (pieces) => pieces.reduce((total, [, bits]) => total + (bits ?? 0), 0);
const length = (pieces) => pieces.reduce((total, [piece, bits]) => total + (bits === null ? 0 : [...piece].length), 0);
const mean = (pieces) => (length(pieces) ? (sum(pieces) / length(pieces)).toFixed(2) : "no");

function coloured([piece, bits, isUnknown]) {
  const span = document.createElement("span");
  span.textContent = piece;
  if (isUnknown) {
    span.className = "unknown";
    span.title = "not in the vocabulary, left out";
  }
  if (bits !== null) {
    const level = levels.filter((level) => bits >= level).length;
    if (level) span.className = `b${level}`;
    span.title = `${bits.toFixed(2)} bits`;
  }
  return span;
}

// The pieces of a text as it was typed, with composed letters; what the model cannot read has no bits.
function aligned(typed, { scored, unknown }) {
  const leftOut = (text) => [text, null, [...text].every((char) => unknown.includes(char))];
  const pieces = [];
  let at = 0;
  for (const [piece, bits] of scored) {
    const start = typed.indexOf(piece, at);
    if (start < 0) break;
    pieces.push(leftOut(typed.slice(at, start)), [piece, bits]);
    at = start + piece.length;
  }
  return [...pieces, leftOut(typed.slice(at))].filter(([piece]) => piece);
}

const MOST_NAMED = 10; // characters
function unknownSentence(unknown) {
  if (!unknown.length) return "";
  const more = unknown.length > MOST_NAMED ? ` and ${unknown.length - MOST_NAMED} more` : "";
  return ` Not in the vocabulary, left out: ${unknown.slice(0, MOST_NAMED).map((char) => JSON.stringify(char)).join(", ")}${more}.`;
}

// The JSON objects of a response, one a line, as they arrive.
async function* lines(response) {
  let rest = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const complete = (rest + part).split("\n");
    rest = complete.pop();
    for (const line of complete) yield JSON.parse(line);
  }
}

class Column {
  constructor(section) {
    [this.select, this.pre, this.next, this.status, this.keep] = ["select", "pre", ".next", ".status", ".keep"].map(
      (name) => section.querySelector(name),
    );
    this.select.addEventListener("change", () => this.score());
    this.keep.addEventListener("click", () => {
      text.value = this.pre.textContent;
      text.focus();
      changed();
    });
  }

  get isWriting() {
    return Boolean(this.writing);
  }

  stop() {
    this.asked?.abort();
    this.writing = false;
  }

  async ask(path, body, signal) {
    const tell = () => (this.status.textContent = "Loading the model; with n-grams of a long text it takes half a minute ...");
    const timer = setTimeout(tell, LONG);
    try {
      const response = await fetch(path, {
        method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      if (!response.ok) throw new Error((await response.json()).error);
      return response;
    } finally {
      clearTimeout(timer);
    }
  }

  // Run a task that may be replaced; show why it failed.
  async run(task) {
    this.stop();
    const asked = (this.asked = new AbortController());
    this.status.classList.remove("error");
    try {
      await task(asked.signal);
    } catch (error) {
      if (asked.signal.aborted) return;
      this.status.textContent = error instanceof TypeError ? "The server has ended; start it again: bukva play" : error.message;
      this.status.classList.add("error");
    } finally {
      if (this.asked === asked) this.writing = false;
      update();
    }
  }

  // The text of an answer, or what the model reads in place of none, and what it wrote.
  show(answer, ...written) {
    this.pre.replaceChildren(...aligned(answer.text || answer.scored[0][0], answer).map(coloured), ...written);
  }

  score() {
    return this.run(async (signal) => {
      const body = request(this.select.value);
      const answer = await (await this.ask("/play/score", body, signal)).json();
      this.show(answer);
      if (this === columns[0]) {
        behind.replaceChildren(...aligned(answer.text, answer).map(coloured));
        behind.scrollTop = text.scrollTop; // the box may have been scrolled before
      }
      const named = answer.likeliest.map(([piece, p]) => `${JSON.stringify(piece)} ${(100 * p).toFixed(0)} %`);
      this.next.textContent = `Likeliest next: ${named.join(", ")}`;
      const without = answer.unlearned ? ` (${mean(answer.unlearned)} without learning)` : "";
      const unable = body.learned && !answer.unlearned ? " This model cannot learn: it is no GPT, or its train is not here." : "";
      this.status.textContent = `Text: ${mean(answer.scored)} bits per character${without}.${unable}${unknownSentence(answer.unknown)}`;
    });
  }

  write() {
    return this.run(async (signal) => {
      this.writing = true;
      update();
      this.next.textContent = "";
      this.status.textContent = "Writing ...";
      const startedAt = performance.now();
      const body = { ...request(this.select.value), settings: settings() };
      const received = lines(await this.ask("/play/write", body, signal));
      const answer = (await received.next()).value;
      const written = Object.assign(document.createElement("span"), { className: "written" });
      this.show(answer, written);
      const pieces = [];
      let firstAt = null;
      for await (const piece of received) {
        firstAt ??= performance.now();
        pieces.push(piece);
        written.append(coloured(piece));
      }
      const perSecond = (1000 * (pieces.length - 1)) / (performance.now() - firstAt);
      this.status.textContent =
        `Text: ${mean(answer.scored)} bits per character; written: ${mean(pieces)}. First character after ` +
        `${(firstAt - startedAt).toFixed(0)} ms, then ${perSecond.toFixed(0)} a second.${unknownSentence(answer.unknown)}`;
    });
  }
}

const columns = [...document.querySelectorAll(".column")].map((section) => new Column(section));
const update = () => (stop.disabled = !columns.some((column) => column.isWriting));

let pause;
function changed() {
  // an edited text is still the same; one that shares less than half of its beginning is another
  let common = 0;
  while (common < shown.length && shown[common] === text.value[common]) common += 1;
  if (learn.checked && common < shown.length / 2) remember(shown);
  shown = text.value;
  updateLearned();
  clearTimeout(pause);
  pause = setTimeout(() => columns.forEach((column) => column.score()), PAUSE);
}

function write() {
  if (!form.reportValidity()) return;
  clearTimeout(pause);
  columns.forEach((column) => column.write());
}

learn.addEventListener("change", changed);
again.addEventListener("click", () => {
  remember(text.value);
  changed();
});
forget.addEventListener("click", () => {
  learned = [];
  changed();
});
text.addEventListener("input", changed);
text.addEventListener("scroll", () => (behind.scrollTop = text.scrollTop));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.ctrlKey) write();
});
document.getElementById("another").addEventListener("click", () => {
  form.elements.seed.valueAsNumber += 1;
  write();
});
stop.addEventListener("click", () => {
  columns.filter((column) => column.isWriting).forEach((column) => column.stop());
  update();
});
for (const button of document.querySelectorAll("button.prompt")) {
  button.addEventListener("click", () => {
    text.value = button.value;
    changed();
  });
}
changed();
