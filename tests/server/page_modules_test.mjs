/* page_modules_test.mjs - Modules of the page in node, without a browser: Markdown, conversations, events. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tree, apiMessages, exportJson, exportMarkdown, importJson, newConversation } from "../../apps/server/web/conversation.js";
import { highlight } from "../../apps/server/web/highlight.js";
import { parse, settled } from "../../apps/server/web/markdown.js";
import { safeAddress, spans } from "../../apps/server/web/spans.js";
import { events } from "../../apps/server/web/stream.js";

const LONG = 100000; /* characters of hostile texts */
const TIMES = 8;     /* so many times the text takes */
const FACTOR = 28;   /* at most so many times as long; it would be 64 if it were quadratic */
const LEAST = 10;    /* milliseconds: what is shorter is too noisy to be compared */

/* A tree in short: [type, content]; text of spans with marks. */
const marks = { em: "em", strong: "b", del: "s", code: "c", math: "m", link: "a" };
const line = (list) => list.map(({ t, v, c, href }) => t === "text" ? v : t === "break" ? "\\n"
    : `<${marks[t]}${href ? " " + href : ""}>${c ? line(c) : v}</>`).join("");
const short = (blocks) => blocks.map((block) => {
    if (block.type === "list") return [block.ordered ? "ol" : "ul", ...block.items.map(({ blocks: inner }) => short(inner))];
    if (block.type === "quote") return ["quote", ...short(block.blocks)];
    if (block.type === "table") return ["table", block.head.map(line), ...block.rows.map((row) => row.map(line))];
    if (block.type === "code") return ["code", block.language, block.text];
    if (block.type === "rule") return ["rule"];
    return [block.type === "heading" ? `h${block.level}` : block.type, block.text ?? line(block.spans)];
});

const BLOCKS = [
    ["# One ##\ntext\n\nTwo\n===\nThree\n---", [["h1", "One"], ["paragraph", "text"], ["h1", "Two"], ["h2", "Three"]]],
    ["a\n\n---\n\nb", [["paragraph", "a"], ["rule"], ["paragraph", "b"]]],
    ["#tag is no heading", [["paragraph", "#tag is no heading"]]],
    ["```js x\nlet a;\n```\nb", [["code", "js", "let a;"], ["paragraph", "b"]]],
    ["~~~\n```\n~~~", [["code", "", "```"]]],
    ["```c\nnot closed\n\n# here", [["code", "c", "not closed\n\n# here"]]],
    ["> a\nb\n>> c\n\nd", [["quote", ["paragraph", "a\\nb"], ["quote", ["paragraph", "c"]]], ["paragraph", "d"]]],
    ["- a\n- b\n  - c\n\n  d\n- e", [["ul", [["paragraph", "a"]], [["paragraph", "b"], ["ul", [["paragraph", "c"]]], ["paragraph", "d"]], [["paragraph", "e"]]]]],
    ["1. a\n   ```\n   x\n   ```\n2. b", [["ol", [["paragraph", "a"], ["code", "", "x"]], [["paragraph", "b"]]]]],
    ["1. a\n  - b", [["ol", [["paragraph", "a"], ["ul", [["paragraph", "b"]]]]]]],
    ["* a\n\n* b\n\nc", [["ul", [["paragraph", "a"]], [["paragraph", "b"]]], ["paragraph", "c"]]],
    ["It was\n1986. A year", [["paragraph", "It was\\n1986. A year"]]],
    ["Head:\n| a | b |\n|:-|-:|\n| 1 \\| 2 |\nend", [["paragraph", "Head:"], ["table", ["a", "b"], ["1 | 2", ""]], ["paragraph", "end"]]],
    ["a | b\nc", [["paragraph", "a | b\\nc"]]],
    ["$$\nx - y\n- z\n$$\nb", [["math", "$$\nx - y\n- z\n$$"], ["paragraph", "b"]]],
    ["\\[ a_1 * b_2 \\]", [["math", "\\[ a_1 * b_2 \\]"]]],
    ["    code\n      more\n\ntext", [["code", "", "code\n  more"], ["paragraph", "text"]]],
    ["<div>\n<b>x</b>", [["paragraph", "<div>\\n<b>x</b>"]]],
    ["a\r\nb\r\n\r\n- c\r\n", [["paragraph", "a\\nb"], ["ul", [["paragraph", "c"]]]]],
    ["", []],
    ["\n \n", []],
];

const SPANS = [
    ["a **b *c* d** e", "a <b>b <em>c</> d</> e"],
    ["***x***", "<b><em>x</></>"],
    ["a_b_c and 2*3*4 x * y", "a_b_c and 2<em>3</>4 x * y"],
    ["_a_ __b__ ~~c~~ ~5 and ~6", "<em>a</> <b>b</> <s>c</> ~5 and ~6"],
    ["**open", "**open"],
    ["*a **b", "*a **b"],
    ["`a*b*` ``c`d`` `e", "<c>a*b*</> <c>c`d</> `e"],
    ["\\*a\\* \\` \\q", "*a* ` \\q"],
    ["$x_1*y*z$ costs $5 and $6", "<m>$x_1*y*z$</> costs $5 and $6"],
    ["\\(a*b*\\) $$c*d*$$", "<m>\\(a*b*\\)</> <m>$$c*d*$$</>"],
    ["[a *b*](https://x.org/?q=(1) \"t\")", "<a https://x.org/?q=(1)>a <em>b</></>"],
    ["[a](<https://x.org>)", "<a https://x.org/>a</>"],
    ["[a](javascript:alert(1))", "[a](javascript:alert(1))"],
    ["[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](//x.org) [d](/path)", "[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](//x.org) [d](/path)"],
    ["![alt](https://x.org/a.png)", "<a https://x.org/a.png>image: alt</>"],
    ["see https://x.org/a_(b), or <https://y.org>.", "see <a https://x.org/a_(b)>https://x.org/a_(b)</>, or <a https://y.org/>https://y.org</>."],
    ["[[a](https://x.org)](https://y.org)", "<a https://y.org/>[a](https://x.org)</>"],
    ["a&lt;b&amp;c &copy;", "a<b&c &copy;"],
    ["a  \nb\\\nc", "a  \\nb\\nc"],
    ["<script>alert(1)</script>", "<script>alert(1)</script>"],
];

test("blocks", () => {
    for (const [text, wanted] of BLOCKS) assert.deepEqual(short(parse(text)), wanted, text);
});

test("spans", () => {
    for (const [text, wanted] of SPANS) assert.equal(line(spans(text)), wanted, text);
});

test("only three protocols are links", () => {
    for (const bad of ["javascript:x", " javascript:x", "java\nscript:x", "data:text/html,x", "blob:x", "file:///x", "vbscript:x", "x", ""])
        assert.equal(safeAddress(bad), null, bad);
    for (const good of ["http://x/", "https://x/", "mailto:a@b.c"]) assert.equal(safeAddress(good), good);
});

/* All text of a tree, without marks. */
function letters(blocks) {
    const of = (list) => list.map(({ v, c }) => v ?? (c ? of(c) : "")).join("");
    return blocks.map((block) => (block.text ?? "") + (block.spans ? of(block.spans) : "") + letters(block.blocks ?? []) +
        letters((block.items ?? []).flatMap(({ blocks: inner }) => inner)) +
        [...(block.head ? [block.head] : []), ...(block.rows ?? [])].flat().map(of).join("")).join("");
}

const hash = (text) => text.replace(/[^A-Za-z]/g, "").split("").sort().join("");

test("no letter is lost", () => {
    const pieces = ["*", "**", "_", "`", "```\n", "[", "](", ")", "a", "b c", "\n", "\n\n", "- ", "1. ", "> ", "| ", "|-|\n", "$", "$$", "\\", "    ", "~~", "<", "!", "#"];
    let seed = 1;
    const next = () => (seed = (seed * 48271) % 2147483647);
    for (let round = 0; round < 3000; round++) {
        let text = "";
        for (let i = next() % 30; i >= 0; i--) text += pieces[next() % pieces.length];
        const found = hash(letters(parse(text)));
        /* words after a fence name its language */
        if (!/```|~~~/.test(text)) assert.equal(found, hash(text), JSON.stringify(text));
    }
});

/* As MarkdownView does it. */
test("a text that grows", () => {
    const text = BLOCKS.map(([part]) => part).filter((part) => !part.includes("not closed")).join("\n\n");
    for (const step of [1, 2, 3, 7, 50]) {
        let from = 0, rest = [];
        const kept = [];
        for (let end = step; end < text.length + step; end += step) {
            const part = text.slice(from, end);
            rest = parse(part);
            if (!rest.length) continue;
            const count = settled(rest, part);
            kept.push(...rest.splice(0, count));
            from += rest[0].from;
        }
        assert.deepEqual(short([...kept, ...rest]), short(parse(text)), `in steps of ${step}`);
    }
});

const HOSTILE = {
    quotes: ">", "spaced quotes": "> ", lists: "- ", "quotes and lists": "> - ", brackets: "[", links: "[a](", "whole links": "[a](b)",
    images: "![", emphasis: "*a _b ", strong: "**a", "closed emphasis": "*_a_* ", backquotes: "`a``", fences: "```\n", "a fence": "````````",
    hashes: "#", dollars: "$a ", formulas: "\\[ ", "round formulas": "\\(", "lines of formulas": "\\[\n", "double dollars": "$$\n", bars: "|",
    angles: "<http://", addresses: "http://a)", spaces: " ", tabs: "\t", rules: "- - ", stars: "*", underscores: "_", backslashes: "\\",
    tables: "a|b\n-|-\n", items: "- a\n", "loose items": "- a\n\n", numbers: "1. a\n  ", "blank items": "- a\n\n\n", lines: "\n", words: "word ",
    "underlined": "a\n---\n", entities: "&amp", "quoted lines": "> a\n", "lazy lines": "a\n",
};

test("hostile texts take linear time", () => {
    /* Of the processor: other processes do not count. */
    const milliseconds = (text) => {
        const began = process.cpuUsage();
        parse(text);
        return process.cpuUsage(began).user / 1000;
    };
    for (const [name, unit] of Object.entries(HOSTILE)) {
        const text = (length) => unit.repeat(Math.ceil(length / unit.length));
        const few = Math.min(...[1, 2].map(() => milliseconds(text(LONG / TIMES)))), many = milliseconds(text(LONG));
        assert.ok(many < Math.max(few, LEAST) * FACTOR, `${name}: ${few.toFixed(1)} ms, ${TIMES} times the text ${many.toFixed(1)} ms`);
    }
});

test("deep nesting", () => {
    assert.equal(parse(">".repeat(10000) + " a").length, 1);
    assert.equal(parse("- ".repeat(10000) + "a").length, 1);
    assert.equal(parse(Array.from({ length: 1000 }, (_, i) => "  ".repeat(i) + "- a").join("\n")).length, 1);
    const depth = (block) => 1 + Math.max(0, ...(block.blocks ?? block.items?.flatMap(({ blocks }) => blocks) ?? []).map(depth));
    assert.ok(depth(parse("> - ".repeat(5000) + "a")[0]) < 15);
});

test("colours of code", () => {
    const kinds = (text, language) => highlight(text, language).filter(([kind]) => kind).map(([kind, part]) => `${kind} ${part}`);
    assert.deepEqual(kinds('int x = 42; // "a"', "c"), ["keyword int", "number 42", 'comment // "a"']);
    assert.deepEqual(kinds("def f(): return 'a#b' # c", "python"), ["keyword def", "keyword return", "string 'a#b'", "comment # c"]);
    assert.deepEqual(kinds("SELECT a FROM b -- c", "sql"), ["keyword SELECT", "keyword FROM", "comment -- c"]);
    assert.deepEqual(kinds("-a\n+b\n c", "diff"), ["removed -a\n", "string +b\n"]);
    for (const language of ["c", "python", "html", "json", "sql", "diff", "", "nothing"]) {
        for (const text of ["\"'`/*#<!--\\", "'''\"\"\"", "a\n\"b\n/*", '"'.repeat(5000), "/*".repeat(5000)])
            assert.equal(highlight(text, language).map(([, part]) => part).join(""), text);
    }
});

/* ---- Conversations ---- */

const settings = { system: "", stop: "" };

function talk() {
    const tree = new Tree(newConversation(settings));
    const question = tree.add(null, { role: "user", content: "A question\nof two lines" });
    const answer = tree.add(question.id, { role: "assistant", content: "One", reasoning: "Hm" });
    return { tree, question, answer };
}

test("versions of messages", () => {
    const { tree, question, answer } = talk();
    assert.equal(tree.meta.title, "A question");
    const other = tree.add(question.id, { role: "assistant", content: "Two" });
    const more = tree.add(other.id, { role: "user", content: "More" });
    assert.deepEqual(tree.path().map(({ content }) => content), ["A question\nof two lines", "Two", "More"]);
    tree.switchBranch(other, -1);
    assert.equal(tree.meta.head, answer.id);
    tree.switchBranch(answer, 1);
    assert.equal(tree.meta.head, more.id);
    const copy = tree.fork(other);
    assert.deepEqual(copy.path().map(({ content }) => content), ["A question\nof two lines", "Two"]);
    assert.deepEqual(tree.remove(other).sort(), [other.id, more.id].sort());
    assert.equal(tree.meta.head, answer.id);
    assert.equal(new Tree({ ...tree.meta, head: "gone" }, [...tree.messages.values()]).meta.head, answer.id);
});

test("messages of the API", () => {
    const { tree, answer } = talk();
    answer.calls = [{ id: "c1", name: "f", arguments: "{}" }];
    assert.equal(tree.openCalls(answer).length, 1);
    tree.add(answer.id, { role: "tool", content: "4", call: "c1", name: "f" });
    assert.equal(tree.openCalls(answer).length, 0);
    assert.deepEqual(apiMessages("Brief.", tree.path()), [
        { role: "system", content: "Brief." },
        { role: "user", content: "A question\nof two lines" },
        { role: "assistant", content: "One", reasoning_content: "Hm", tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", tool_call_id: "c1", content: "4" },
    ]);
});

test("files", () => {
    const { tree, question } = talk();
    tree.add(question.id, { role: "assistant", content: "Two" });
    const [back] = importJson(exportJson([tree]), (found) => found);
    assert.equal(back.messages.size, 3);
    assert.notEqual(back.meta.id, tree.meta.id);
    assert.deepEqual(back.path().map(({ content }) => content), tree.path().map(({ content }) => content));
    assert.match(exportMarkdown(tree), /^# A question\n\n## User\n\nA question\nof two lines\n\n## Assistant\n\nTwo\n$/);
    const file = (messages) => JSON.stringify({ format: "sluice-conversations", version: 1, conversations: [{ messages }] });
    const bad = [["no JSON", /not JSON/], ["{}", /no conversations/], ['{"format": "sluice-conversations", "version": 2, "conversations": []}', /version 2/],
        [file([{ role: "user" }]), /no role or content/], [file([{ id: "a", role: "user", content: "", parent: "b" }]), /comes before/],
        [file([null]), /no role/], [file([{ id: "a", role: "system", content: "", parent: null }]), /no role/]];
    for (const [text, message] of bad) assert.throws(() => importJson(text, () => settings), message, text);
});

test("server-sent events in any pieces", async () => {
    const bytes = new TextEncoder().encode(': ping\n\ndata: {"a": "ü"}\r\n\r\ndata: one\ndata: two\n\nevent: x\ndata:last');
    for (let size = 1; size < 12; size++) {
        const stream = new ReadableStream({
            start(controller) {
                for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
                controller.close();
            },
        });
        const found = [];
        for await (const text of events(stream)) found.push(text);
        assert.deepEqual(found, ['{"a": "ü"}', "one\ntwo", "last"], `in pieces of ${size}`);
    }
});
