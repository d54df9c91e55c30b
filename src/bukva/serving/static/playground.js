// The playground has two columns, each with a model. A model scores the text while the user types, and continues the text
// on request. A new request of a column cancels the previous request of the column.
const form = document.getElementById("form");
const text = document.getElementById("text");
const behind = document.getElementById("behind"); // the colored copy of the text, behind the transparent text box
const stop = document.getElementById("stop");
const levels = form.dataset.levels.split(" ").map(Number); // lower limits, in bits, of the colors of a character
const DEBOUNCE_MS = 150; // the text is scored after this time without an edit
const LOADING_MS = 500; // a request that takes longer is probably waiting for its model to load

const settings = () =>
  Object.fromEntries([...form.querySelectorAll(".settings input")].map((input) => [input.name, input.valueAsNumber]));
const request = (model) => ({ model, text: text.value });
const sum = (pieces) => pieces.reduce((total, [, bits]) => total + (bits ?? 0), 0);
const length = (pieces) => pieces.reduce((total, [piece, bits]) => total + (bits === null ? 0 : [...piece].length), 0);
const mean = (pieces) => (length(pieces) ? (sum(pieces) / length(pieces)).toFixed(2) : "no");

function colored([piece, bits, isUnknown]) {
  const span = document.createElement("span");
  span.textContent = piece;
  if (isUnknown) {
    span.className = "unknown";
    span.title = "not in the vocabulary, ignored";
  }
  if (bits !== null) {
    const level = levels.filter((level) => bits >= level).length;
    if (level) span.className = `b${level}`;
    span.title = `${bits.toFixed(2)} bits`;
  }
  return span;
}

// Divide the typed text into scored pieces and the parts between these pieces. Such a part is not in the vocabulary and
// has no bits.
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
  return ` Not in the vocabulary, ignored: ${unknown.slice(0, MOST_NAMED).map((char) => JSON.stringify(char)).join(", ")}${more}.`;
}

// Yield the JSON objects of a response, one per line, as they arrive.
async function* lines(response) {
  let rest = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const complete = (rest + part).split("\n");
    rest = complete.pop();
    for (const line of complete) yield JSON.parse(line);
  }
}

class Column {
  isWriting = false;

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

  stop() {
    this.controller?.abort();
    this.isWriting = false;
  }

  async post(path, body, signal) {
    const showLoading = () =>
      (this.status.textContent = "Loading the model. A GPT with the n-grams of a long text can take half a minute to load ...");
    const timer = setTimeout(showLoading, LOADING_MS);
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

  // Run a task, and show its error if it fails. The next task of the column cancels this one.
  async run(task) {
    this.stop();
    const controller = (this.controller = new AbortController());
    this.status.classList.remove("error");
    try {
      await task(controller.signal);
    } catch (error) {
      if (controller.signal.aborted) return;
      const isUnreachable = error instanceof TypeError; // fetch raises TypeError for network errors
      this.status.textContent = isUnreachable ? "The server is not running. Restart it with `bukva play`." : error.message;
      this.status.classList.add("error");
    } finally {
      if (this.controller === controller) this.isWriting = false;
      update();
    }
  }

  // Show the text of an answer, followed by `written`. For an empty text, show the newline that the model reads instead.
  show(answer, ...written) {
    this.pre.replaceChildren(...aligned(answer.text || answer.scored[0][0], answer).map(colored), ...written);
  }

  score() {
    return this.run(async (signal) => {
      const answer = await (await this.post("/play/score", request(this.select.value), signal)).json();
      this.show(answer);
      if (this === columns[0]) {
        behind.replaceChildren(...aligned(answer.text, answer).map(colored));
        behind.scrollTop = text.scrollTop; // the user may have scrolled the box before the answer arrived
      }
      const named = answer.likeliest.map(([piece, p]) => `${JSON.stringify(piece)} ${(100 * p).toFixed(0)} %`);
      this.next.textContent = `Likeliest next: ${named.join(", ")}`;
      this.status.textContent = `Text: ${mean(answer.scored)} bits per character.${unknownSentence(answer.unknown)}`;
    });
  }

  write() {
    return this.run(async (signal) => {
      this.isWriting = true;
      update();
      this.next.textContent = "";
      this.status.textContent = "Writing ...";
      const startedAt = performance.now();
      const body = { ...request(this.select.value), settings: settings() };
      const received = lines(await this.post("/play/write", body, signal));
      const answer = (await received.next()).value;
      const written = Object.assign(document.createElement("span"), { className: "written" });
      this.show(answer, written);
      const pieces = [];
      let firstAt = null;
      for await (const piece of received) {
        firstAt ??= performance.now();
        pieces.push(piece);
        written.append(colored(piece));
      }
      const perSecond = (1000 * (pieces.length - 1)) / (performance.now() - firstAt);
      this.status.textContent =
        `Text: ${mean(answer.scored)} bits per character; written: ${mean(pieces)}. First character after ` +
        `${(firstAt - startedAt).toFixed(0)} ms, then ${perSecond.toFixed(0)} per second.${unknownSentence(answer.unknown)}`;
    });
  }
}

const columns = [...document.querySelectorAll(".column")].map((section) => new Column(section));
const update = () => (stop.disabled = !columns.some((column) => column.isWriting));

let scoring; // the timer that scores the text
function changed() {
  clearTimeout(scoring);
  scoring = setTimeout(() => columns.forEach((column) => column.score()), DEBOUNCE_MS);
}

text.addEventListener("input", changed);
text.addEventListener("scroll", () => (behind.scrollTop = text.scrollTop));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(scoring);
  columns.forEach((column) => column.write());
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.ctrlKey) form.requestSubmit();
});
document.getElementById("another").addEventListener("click", () => {
  form.elements.seed.valueAsNumber += 1;
  form.requestSubmit();
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
