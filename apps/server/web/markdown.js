/* markdown.js - Markdown to a tree of plain objects, and the tree to DOM nodes.
 *
 * The text comes from a model and is never trusted: no HTML is read, text only becomes text nodes, and
 * links have one of three protocols.  The time is linear in the length of the text: containers nest at
 * most DEPTH deep, and every search for a closing mark is bounded or remembered.
 *
 * A block: {type, from, ...}.  from: the offset in the text where a block of the outermost level begins.
 *   heading level, spans | paragraph spans | code language, text, closed | math text | rule
 *   quote blocks | list ordered, first, loose, items: [{task, blocks}] | table align, head, rows
 * spans come from spans(): {t: text|code|math|em|strong|del|link|break, v, c, href}. */
import { spans } from "./spans.js";
import { highlight } from "./highlight.js";

const DEPTH = 10;
const MATH_LINES = 60;
const COLUMNS = 60;
const COLOURED = 20000; /* characters of code that are coloured while they grow */

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const BULLET = /^ {0,3}([-*+]|\d{1,9}[.)])(?= |$)/;
const UNDERLINE = /^ {0,3}(={2,}|-{3,}) *$/;
const LANGUAGE = /^[\w+#.-]{1,30}/;

/* The blocks of a text. */
export function parse(text) {
    const lines = text.split("\n");
    const offsets = new Array(lines.length);
    for (let i = 0, at = 0; i < lines.length; i++) {
        offsets[i] = at;
        at += lines[i].length + 1;
        if (lines[i].endsWith("\r")) lines[i] = lines[i].slice(0, -1);
        if (lines[i].includes("\t")) lines[i] = lines[i].replace(/^[ \t]+/, (blank) => blank.replaceAll("\t", "    "));
    }
    const blocks = parseLines(lines, 0);
    for (const block of blocks) block.from = offsets[block.from];
    return blocks;
}

/* Each reads the block that begins at line i, if one of its kind does: the line after it, or 0. */
const READERS = [readFence, readHeading, readRule, readMath, readQuote, readList, readTable, readIndented];

function parseLines(lines, depth) {
    const blocks = [];
    let i = 0;
    while (i < lines.length) {
        if (isBlank(lines[i])) {
            i++;
            continue;
        }
        const from = i, count = blocks.length;
        let next = 0;
        for (const reader of READERS) if ((next = reader(lines, i, depth, blocks))) break;
        i = next || readParagraph(lines, i, depth, blocks);
        if (blocks.length > count) blocks[count].from = from;
    }
    return blocks;
}

const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

function isRule(line) {
    if (!/^ {0,3}[-*_]/.test(line)) return false;
    const marks = line.replace(/[ \t]/g, "");
    return marks.length >= 3 && marks === marks[0].repeat(marks.length);
}

function isFence(line) {
    const match = FENCE.exec(line);
    return match && !(match[1][0] === "`" && match[2].includes("`")) ? match : null;
}

/* Whether line i ends a paragraph that comes before it without an empty line. */
function interrupts(lines, i, depth) {
    const line = lines[i];
    if (HEADING.test(line) || isFence(line) || isRule(line) || mathOpens(line)) return true;
    if (depth < DEPTH && /^ {0,3}>/.test(line)) return true;
    const marker = depth < DEPTH && BULLET.exec(line);
    if (marker && marker[0].length < line.trimEnd().length && (!/\d/.test(marker[1]) || parseInt(marker[1], 10) === 1))
        return true;
    return tableColumns(lines, i) > 0;
}

function readFence(lines, i, depth, blocks) {
    const open = isFence(lines[i]);
    if (!open) return 0;
    const indent = indentOf(lines[i]), mark = open[1][0];
    let end = i + 1;
    for (; end < lines.length; end++) {
        const line = lines[end].trim();
        if (line.length >= open[1].length && indentOf(lines[end]) < 4 && line === mark.repeat(line.length)) break;
    }
    const body = lines.slice(i + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line))));
    const language = (LANGUAGE.exec(open[2]) || [""])[0];
    blocks.push({ type: "code", language, text: body.join("\n"), closed: end < lines.length });
    return Math.min(end + 1, lines.length);
}

function readHeading(lines, i, depth, blocks) {
    const match = HEADING.exec(lines[i]);
    if (!match) return 0;
    let text = lines[i].slice(match[0].length).trim();
    let end = text.length;
    while (end > 0 && text[end - 1] === "#") end--;
    if (end === 0 || text[end - 1] === " ") text = text.slice(0, end).trim();
    blocks.push({ type: "heading", level: match[1].length, spans: spans(text) });
    return i + 1;
}

function readRule(lines, i, depth, blocks) {
    if (!isRule(lines[i])) return 0;
    blocks.push({ type: "rule" });
    return i + 1;
}

/* Formulas stay as they were typed; here they only must not be taken for something else. */
const MATH = [["$$", "$$"], ["\\[", "\\]"]];
const mathOpens = (line) => MATH.find(([open]) => line.trimStart().startsWith(open));

function readMath(lines, i, depth, blocks) {
    const pair = mathOpens(lines[i]);
    if (!pair) return 0;
    const last = Math.min(lines.length, i + MATH_LINES);
    let end = i, start = lines[i].indexOf(pair[0]) + 2;
    for (; end < last; end++, start = 0) {
        if (isBlank(lines[end]) && end < lines.length - 1) return 0;
        const close = lines[end].indexOf(pair[1], start);
        if (close >= 0 && !isBlank(lines[end].slice(close + 2))) return 0;
        if (close >= 0) break;
    }
    if (end === last && last < lines.length) return 0;
    blocks.push({ type: "math", text: lines.slice(i, end + 1).join("\n") });
    return Math.min(end + 1, lines.length);
}

function readQuote(lines, i, depth, blocks) {
    if (depth >= DEPTH || !/^ {0,3}>/.test(lines[i])) return 0;
    const inner = [];
    for (; i < lines.length; i++) {
        const match = /^ {0,3}> ?/.exec(lines[i]);
        if (match) inner.push(lines[i].slice(match[0].length));
        else if (isBlank(lines[i]) || isBlank(inner.at(-1)) || interrupts(lines, i, depth)) break;
        else inner.push(lines[i]);
    }
    blocks.push({ type: "quote", blocks: parseLines(inner, depth + 1) });
    return i;
}

function readList(lines, i, depth, blocks) {
    const first = depth < DEPTH && BULLET.exec(lines[i]);
    if (!first) return 0;
    const kind = first[1].at(-1), ordered = first[1].length > 1;
    const list = { type: "list", ordered, first: ordered ? parseInt(first[1], 10) : 1, loose: false, items: [] };
    for (let marker = first; marker && marker[1].at(-1) === kind && !isRule(lines[i]);) {
        const item = { lines: [], loose: false };
        i = readItem(lines, i, marker, depth, item);
        list.items.push(makeItem(item.lines, depth));
        list.loose ||= item.loose;
        let next = i;
        while (next < lines.length && isBlank(lines[next])) next++;
        marker = next < lines.length ? BULLET.exec(lines[next]) : null;
        if (marker && marker[1].at(-1) === kind) {
            list.loose ||= next > i;
            i = next;
        }
    }
    blocks.push(list);
    return i;
}

/* The lines of one item without their indentation; returns the line after it. */
function readItem(lines, i, marker, depth, item) {
    const rest = lines[i].slice(marker[0].length);
    const blank = indentOf(rest);
    const indent = marker[0].length + (isBlank(rest) || blank > 4 ? 1 : blank);
    item.lines.push(lines[i].slice(indent));
    for (i++; i < lines.length; i++) {
        if (isBlank(lines[i])) {
            const next = i + 1 < lines.length && !isBlank(lines[i + 1]) ? indentOf(lines[i + 1]) : 0;
            if (next < Math.min(indent, 2) || (next < indent && !BULLET.test(lines[i + 1].slice(next)))) break;
            item.loose ||= !BULLET.test(lines[i + 1].slice(next));
            item.lines.push("");
            continue;
        }
        const own = indentOf(lines[i]);
        if (own >= indent) item.lines.push(lines[i].slice(indent));
        else if (own >= 2 && BULLET.test(lines[i].slice(own))) item.lines.push(lines[i].slice(own));
        else if (isBlank(item.lines.at(-1)) || BULLET.test(lines[i]) || interrupts(lines, i, depth)) break;
        else item.lines.push(lines[i]);
    }
    return i;
}

function makeItem(lines, depth) {
    const task = /^\[([ xX])\] /.exec(lines[0]);
    if (task) lines[0] = lines[0].slice(4);
    return { task: task ? task[1] !== " " : null, blocks: parseLines(lines, depth + 1) };
}

/* The cells of a line of a table, trimmed. */
function cells(line) {
    const out = [];
    let cell = "";
    for (const part of line.trim().replace(/^\|/, "").split(/(\\\||\|)/)) {
        if (part === "|") {
            out.push(cell.trim());
            cell = "";
        } else cell += part === "\\|" ? "|" : part;
    }
    if (cell.trim() !== "") out.push(cell.trim());
    return out;
}

/* How many columns the table has whose head is line i; 0: there is none. */
function tableColumns(lines, i) {
    const under = i + 1 < lines.length ? lines[i + 1] : "";
    if (!lines[i].includes("|") || under.length > 2000 || !/^[ |:-]*-[ |:-]*$/.test(under)) return 0;
    const marks = cells(under);
    const count = cells(lines[i]).length;
    return count === marks.length && count <= COLUMNS && marks.every((mark) => /^:?-+:?$/.test(mark)) ? count : 0;
}

function readTable(lines, i, depth, blocks) {
    const columns = tableColumns(lines, i);
    if (!columns) return 0;
    const align = cells(lines[i + 1]).map((mark) =>
        mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "left");
    const row = (line) => {
        const found = cells(line);
        if (found.length > columns) found.push(found.splice(columns - 1).join(" | "));
        while (found.length < columns) found.push("");
        return found.map((cell) => spans(cell));
    };
    const table = { type: "table", align, head: row(lines[i]), rows: [] };
    for (i += 2; i < lines.length && lines[i].includes("|") && !isFence(lines[i]); i++) table.rows.push(row(lines[i]));
    blocks.push(table);
    return i;
}

function readIndented(lines, i, depth, blocks) {
    if (indentOf(lines[i]) < 4) return 0;
    const body = [];
    for (; i < lines.length && (indentOf(lines[i]) >= 4 || isBlank(lines[i])); i++) body.push(lines[i].slice(4));
    while (body.length && isBlank(body.at(-1))) {
        body.pop();
        i--;
    }
    blocks.push({ type: "code", language: "", text: body.join("\n"), closed: true });
    return i;
}

function readParagraph(lines, i, depth, blocks) {
    const from = i;
    for (i++; i < lines.length && !isBlank(lines[i]); i++) {
        const under = UNDERLINE.exec(lines[i]);
        if (under) {
            const text = lines.slice(from, i).join("\n").trim();
            blocks.push({ type: "heading", level: under[1][0] === "=" ? 1 : 2, spans: spans(text) });
            return i + 1;
        }
        if (interrupts(lines, i, depth)) break;
    }
    const text = lines.slice(from, i).map((line) => line.trimStart()).join("\n");
    blocks.push({ type: "paragraph", spans: spans(text) });
    return i;
}

/* ---- The tree as DOM nodes ---- */

function element(tag, className, ...children) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children);
    return node;
}

const TAGS = { em: "em", strong: "strong", del: "del" };

function renderSpans(list, parent) {
    for (const span of list) {
        if (span.t === "text") parent.append(span.v);
        else if (span.t === "break") parent.append(element("br"));
        else if (span.t === "code") parent.append(element("code", "", span.v));
        else if (span.t === "math") parent.append(element("span", "math", span.v));
        else if (span.t === "link") parent.append(renderLink(span));
        else parent.append(renderSpans(span.c, element(TAGS[span.t], "")));
    }
    return parent;
}

function renderLink(span) {
    const link = element("a", "");
    link.href = span.href;
    link.title = span.href;
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    return renderSpans(span.c, link);
}

function renderCode(block) {
    const code = element("code", "");
    const growing = !block.closed && block.text.length > COLOURED; /* colours come at its end */
    for (const [kind, text] of highlight(block.text, growing ? "" : block.language))
        code.append(kind ? element("span", kind, text) : text);
    const copy = element("button", "copy-code", "Copy");
    copy.type = "button";
    copy.setAttribute("aria-label", "Copy code");
    const head = element("div", "code-head", element("span", "", block.language || "text"), copy);
    const body = element("pre", "", code);
    body.tabIndex = 0;
    return element("div", "code", head, body);
}

function renderList(block) {
    const list = element(block.ordered ? "ol" : "ul", block.loose ? "loose" : "");
    if (block.ordered && block.first !== 1) list.start = block.first;
    for (const item of block.items) {
        const node = element("li", item.task === null ? "" : "task");
        if (item.task !== null) {
            const box = element("input", "");
            box.type = "checkbox";
            box.checked = item.task;
            box.disabled = true;
            box.setAttribute("aria-label", item.task ? "done" : "not done");
            node.append(box);
        }
        const tight = !block.loose && item.blocks[0]?.type === "paragraph";
        if (tight) renderSpans(item.blocks[0].spans, node);
        render(tight ? item.blocks.slice(1) : item.blocks, node);
        list.append(node);
    }
    return list;
}

function renderTable(block) {
    const row = (tag, list) => element("tr", "", ...list.map((cell, i) =>
        renderSpans(cell, element(tag, block.align[i] === "left" ? "" : block.align[i]))));
    const body = element("tbody", "", ...block.rows.map((list) => row("td", list)));
    const table = element("table", "", element("thead", "", row("th", block.head)), body);
    const frame = element("div", "table", table);
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Table");
    return frame;
}

const RENDERERS = {
    heading: (block) => renderSpans(block.spans, element("h" + Math.min(6, Math.max(3, block.level + 1)), "level-" + block.level)),
    paragraph: (block) => renderSpans(block.spans, element("p", "")),
    code: renderCode,
    math: (block) => element("p", "math", block.text),
    rule: () => element("hr", ""),
    quote: (block) => render(block.blocks, element("blockquote", "")),
    list: renderList,
    table: renderTable,
};

/* Appends the blocks to an element, and returns it. */
function render(blocks, parent) {
    for (const block of blocks) parent.append(RENDERERS[block.type](block));
    return parent;
}

/* How many of the blocks no further text can change: all but the last, and one more where the last is a line
 * that is not complete, which may turn out to belong to the block before it. */
export function settled(blocks, text) {
    const last = blocks.length - 1;
    return Math.max(0, last > 0 && blocks[last].from > text.lastIndexOf("\n") ? last - 1 : last);
}

/* A text that grows: only the blocks at its end are parsed and rendered again. */
export class MarkdownView {
    constructor(root) {
        this.root = root;
        this.clear();
    }

    clear() {
        this.root.replaceChildren();
        this.text = "";
        this.from = 0; /* where the blocks begin that may change */
        this.kept = 0; /* nodes before them */
    }

    update(text) {
        if (text === this.text) return;
        if (!text.startsWith(this.text)) this.clear();
        this.text = text;
        const rest = text.slice(this.from);
        const blocks = parse(rest);
        while (this.root.childNodes.length > this.kept) this.root.lastChild.remove();
        render(blocks, this.root);
        if (!blocks.length) return;
        const count = settled(blocks, rest);
        this.kept += count;
        this.from += blocks[count].from;
    }
}
