/* spans.js - What is inside a paragraph of Markdown: emphasis, code, links, formulas.  Linear in the length
 * of the text; at most one frame of each kind is open, so the result is at most seven levels deep. */

const PLAIN = /[^\\`*_~[!<$&h\n\]]+/y;
const ADDRESS = /https?:\/\/[^\s<>"'`]{1,2000}/y;
const ANGLED = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const ENTITY = /&(amp|lt|gt|quot|nbsp|#39);/y;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'" };
const PUNCTUATION = /[\p{P}\p{S}]/u;
const MATH_CHARACTERS = 1000, ADDRESS_CHARACTERS = 2048;

/* The address as a link may have it, or null: only these protocols leave the page. */
export function safeAddress(text) {
    try {
        const url = new URL(text);
        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch {
        return null;
    }
}

/* The spans of a text; in a link, no other link begins. */
export function spans(text, inLink = false) {
    const scan = new Scan(text, inLink);
    while (scan.at < text.length) scan.step();
    return scan.finish();
}

/* Pairs of square brackets: the index of the closing one for each opening one. */
function bracketPairs(text) {
    const pairs = new Map(), open = [];
    for (let i = 0; i < text.length; i++) {
        if (text[i] === "\\") i++;
        else if (text[i] === "[") open.push(i);
        else if (text[i] === "]" && open.length) pairs.set(open.pop(), i);
    }
    return pairs;
}

/* Where runs of backquotes begin, by their length. */
function codeRuns(text) {
    const runs = new Map();
    for (const match of text.matchAll(/`+/g)) {
        if (!runs.has(match[0].length)) runs.set(match[0].length, []);
        runs.get(match[0].length).push(match.index);
    }
    for (const list of runs.values()) list.reverse();
    return runs;
}

/* `(address "title")` at i: {href, end}, or null. */
function destination(text, i) {
    if (text[i] !== "(") return null;
    const last = Math.min(text.length, i + ADDRESS_CHARACTERS);
    let from = i + 1, end, depth = 0;
    while (text[from] === " ") from++;
    if (text[from] === "<") {
        end = ++from;
        while (end < last && text[end] !== ">" && text[end] !== "\n") end++;
    } else {
        for (end = from; end < last && !/\s/.test(text[end]); end++) {
            if (text[end] === "(" && ++depth > 32) return null;
            if (text[end] === ")" && depth-- === 0) break;
        }
    }
    const href = text.slice(from, end);
    if (text[end] === ">") end++;
    const title = /\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}')\s*\)|\s{0,20}\)/y;
    title.lastIndex = end;
    const close = title.exec(text);
    return close ? { href, end: end + close[0].length } : null;
}

class Scan {
    constructor(text, inLink) {
        this.text = text;
        this.inLink = inLink;
        this.at = 0;
        this.frames = [{ kind: "", mark: "", nodes: [] }];
        this.found = new Map(); /* the next place of a closing mark */
    }

    get nodes() {
        return this.frames.at(-1).nodes;
    }

    add(text) {
        const last = this.nodes.at(-1);
        if (last?.t === "text") last.v += text;
        else if (text) this.nodes.push({ t: "text", v: text });
    }

    push(node, end) {
        this.nodes.push(node);
        this.at = end;
    }

    match(pattern) {
        pattern.lastIndex = this.at;
        return pattern.exec(this.text);
    }

    /* The next occurrence at or after `from`; each mark is searched over the text only once. */
    next(mark, from) {
        let place = this.found.get(mark);
        if (place === undefined || (place >= 0 && place < from)) {
            place = this.text.indexOf(mark, from);
            this.found.set(mark, place);
        }
        return place;
    }

    step() {
        const plain = this.match(PLAIN);
        if (plain) {
            this.add(plain[0]);
            this.at += plain[0].length;
            return;
        }
        const one = this.text[this.at];
        const reader = READERS[one];
        if (reader && reader.call(this)) return;
        this.add(one);
        this.at++;
    }

    escape() {
        const after = this.text[this.at + 1];
        if (after === "(" && this.math("\\(", "\\)")) return true;
        if (after === "[" && this.math("\\[", "\\]")) return true;
        if (after === "\n") {
            this.push({ t: "break" }, this.at + 2);
            return true;
        }
        if (!after || !/[!-/:-@[-`{-~]/.test(after)) return false;
        this.add(after);
        this.at += 2;
        return true;
    }

    math(open, close) {
        const end = this.next(close, this.at + open.length);
        if (end < 0 || end - this.at > MATH_CHARACTERS) return false;
        this.push({ t: "math", v: this.text.slice(this.at, end + close.length) }, end + close.length);
        return true;
    }

    dollar() {
        if (this.text[this.at + 1] === "$") return this.math("$$", "$$");
        const end = this.next("$", this.at + 1);
        const inside = end > this.at + 1 ? this.text.slice(this.at + 1, Math.min(end, this.at + MATH_CHARACTERS)) : "";
        if (!inside || end - this.at >= MATH_CHARACTERS || /^\s|\s$|\n/.test(inside) || /\d/.test(this.text[end + 1] ?? ""))
            return false;
        return this.math("$", "$");
    }

    code() {
        this.runs ??= codeRuns(this.text);
        const length = this.match(/`+/y)[0].length;
        const places = this.runs.get(length) ?? []; /* none: an escaped one begins the run */
        while (places.length && places.at(-1) <= this.at) places.pop();
        if (!places.length) {
            this.add("`".repeat(length));
            this.at += length;
            return true;
        }
        let inside = this.text.slice(this.at + length, places.at(-1)).replaceAll("\n", " ");
        if (inside.startsWith(" ") && inside.endsWith(" ") && inside.trim()) inside = inside.slice(1, -1);
        this.push({ t: "code", v: inside }, places.at(-1) + length);
        return true;
    }

    bracket() {
        if (this.inLink) return false;
        this.pairs ??= bracketPairs(this.text);
        const close = this.pairs.get(this.at);
        const target = close && destination(this.text, close + 1);
        if (!target) return false;
        const href = safeAddress(target.href);
        const inside = this.text.slice(this.at + 1, close);
        if (href) this.push({ t: "link", href, c: spans(inside, true) }, target.end);
        else {
            this.add(this.text.slice(this.at, target.end));
            this.at = target.end;
        }
        return true;
    }

    /* An image is a link: the page loads nothing from elsewhere. */
    image() {
        if (this.text[this.at + 1] !== "[" || this.inLink) return false;
        this.at++;
        const count = this.nodes.length;
        if (!this.bracket()) {
            this.at--;
            return false;
        }
        const node = this.nodes.at(-1);
        if (this.nodes.length > count && node.t === "link") node.c.unshift({ t: "text", v: "image: " });
        return true;
    }

    link(address, end) {
        const href = this.inLink ? null : safeAddress(address);
        if (!href) return false;
        this.push({ t: "link", href, c: [{ t: "text", v: address }] }, end);
        return true;
    }

    angle() {
        const match = this.match(ANGLED);
        return Boolean(match) && this.link(match[1], this.at + match[0].length);
    }

    address() {
        if (/\w/.test(this.text[this.at - 1] ?? "")) return false;
        const match = this.match(ADDRESS);
        if (!match) return false;
        let address = match[0], spare = 0;
        for (const one of address) spare += one === ")" ? 1 : one === "(" ? -1 : 0;
        for (let last = address.at(-1); /[.,;:!?*_~)\]]/.test(last); last = address.at(-1)) {
            if (last === ")" && spare-- <= 0) break;
            address = address.slice(0, -1);
        }
        return this.link(address, this.at + address.length);
    }

    entity() {
        const match = this.match(ENTITY);
        if (!match) return false;
        this.add(ENTITIES[match[1]]);
        this.at += match[0].length;
        return true;
    }

    newline() {
        this.push({ t: "break" }, this.at + 1);
        return true;
    }

    /* A run of *, _ or ~ closes what is open and can be closed, then opens what is not open yet. */
    emphasis() {
        const one = this.text[this.at];
        let run = this.at;
        while (this.text[run] === one) run++;
        const before = this.text[this.at - 1] ?? " ", after = this.text[run] ?? " ";
        const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
        const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
        const word = one === "_" && left && right;
        let rest = run - this.at;
        if (one === "~" && rest !== 2) return this.leave(one, rest, run);
        if (right && !(word && !PUNCTUATION.test(after))) rest = this.close(one, rest);
        if (left && !(word && !PUNCTUATION.test(before))) rest = this.open(one, rest);
        return this.leave(one, rest, run);
    }

    leave(one, rest, run) {
        this.add(one.repeat(rest));
        this.at = run;
        return true;
    }

    close(one, rest) {
        while (rest > 0) {
            const place = this.frames.findLastIndex(({ mark }) => mark[0] === one && mark.length <= rest);
            if (place < 0) break;
            while (this.frames.length > place + 1) this.flatten();
            const frame = this.frames.pop();
            this.nodes.push({ t: frame.kind, c: frame.nodes });
            rest -= frame.mark.length;
        }
        return rest;
    }

    open(one, rest) {
        for (const [length, kind] of one === "~" ? [[2, "del"]] : [[2, "strong"], [1, "em"]]) {
            const mark = one.repeat(length);
            if (rest < length || this.frames.some((frame) => frame.mark === mark)) continue;
            this.frames.push({ kind, mark, nodes: [] });
            rest -= length;
        }
        return rest;
    }

    /* The last frame was never closed: its mark is text. */
    flatten() {
        const { mark, nodes } = this.frames.pop();
        this.add(mark);
        for (const node of nodes) {
            if (node.t === "text") this.add(node.v);
            else this.nodes.push(node);
        }
    }

    finish() {
        while (this.frames.length > 1) this.flatten();
        return this.frames[0].nodes;
    }
}

const READERS = {
    "\\": Scan.prototype.escape,
    "`": Scan.prototype.code,
    "*": Scan.prototype.emphasis,
    "_": Scan.prototype.emphasis,
    "~": Scan.prototype.emphasis,
    "[": Scan.prototype.bracket,
    "!": Scan.prototype.image,
    "<": Scan.prototype.angle,
    "$": Scan.prototype.dollar,
    "&": Scan.prototype.entity,
    "h": Scan.prototype.address,
    "\n": Scan.prototype.newline,
};
