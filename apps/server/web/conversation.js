/* conversation.js - A conversation: a tree of messages, of which one path is shown.
 *
 * Edits and regenerated answers are siblings, nothing is overwritten.  A message:
 *   id, conversation, parent (id or null), created, role: user | assistant | tool, content
 *   of assistants: reasoning, calls [{id, name, arguments}], state: done | streaming | stopped | failed,
 *     error {message, retry}, finish, usage, timings, sluice, thinking_ms, updated
 *   of tools: call (the id of the call), name
 * No DOM and no storage here. */

const newId = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(9));
    return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
};

export function newConversation(settings) {
    const now = Date.now();
    return { id: newId(), title: "", created: now, updated: now, head: null, settings: structuredClone(settings) };
}

export class Tree {
    /* The messages of a conversation, in any order; those whose parent is missing are left out. */
    constructor(meta, messages = []) {
        this.meta = meta;
        this.messages = new Map();
        this.children = new Map([[null, []]]);
        const waiting = new Map();
        for (const message of messages.toSorted((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))) {
            if (!waiting.has(message.parent)) waiting.set(message.parent, []);
            waiting.get(message.parent).push(message);
        }
        const ready = [null];
        while (ready.length) {
            for (const message of waiting.get(ready.pop()) ?? []) {
                this.insert(message);
                ready.push(message.id);
            }
        }
        if (!this.messages.has(meta.head)) meta.head = this.lastLeaf(null);
    }

    insert(message) {
        this.messages.set(message.id, message);
        this.children.set(message.id, []);
        this.children.get(message.parent).push(message);
    }

    /* A new message under `parent`, which becomes the end of the path. */
    add(parent, fields) {
        const siblings = this.children.get(parent);
        const created = Math.max(Date.now(), (siblings.at(-1)?.created ?? 0) + 1);
        const message = { id: newId(), conversation: this.meta.id, parent, created, content: "", ...fields };
        this.insert(message);
        this.meta.head = message.id;
        this.meta.updated = Date.now();
        if (!this.meta.title && message.role === "user") this.meta.title = titleOf(message.content);
        return message;
    }

    /* The messages from the first to `id`, by default to the end that is shown. */
    path(id = this.meta.head) {
        const out = [];
        for (let message = this.messages.get(id); message; message = this.messages.get(message.parent)) out.push(message);
        return out.reverse();
    }

    siblings(message) {
        return this.children.get(message.parent);
    }

    /* The place of a message among its siblings, by its id: the object may be of an older tree. */
    place(message) {
        return this.siblings(message).findIndex(({ id }) => id === message.id);
    }

    /* The newest message below `id` (null: of all) that has nothing below it. */
    lastLeaf(id) {
        for (let below = this.children.get(id); below?.length; below = this.children.get(id)) id = below.at(-1).id;
        return id;
    }

    /* Shows the sibling `step` places further. */
    switchBranch(message, step) {
        const other = this.siblings(message)[this.place(message) + step];
        if (other) this.meta.head = this.lastLeaf(other.id);
    }

    /* Takes a message and all below it away; returns their ids. */
    remove(message) {
        const gone = [message.id];
        for (let i = 0; i < gone.length; i++) for (const child of this.children.get(gone[i])) gone.push(child.id);
        const siblings = this.siblings(message), place = this.place(message);
        siblings.splice(place, 1);
        for (const id of gone) {
            this.messages.delete(id);
            this.children.delete(id);
        }
        if (!this.messages.has(this.meta.head)) {
            const near = siblings[Math.min(place, siblings.length - 1)];
            this.meta.head = near ? this.lastLeaf(near.id) : message.parent;
        }
        return gone;
    }

    /* A new conversation with copies of the messages up to one. */
    fork(message) {
        const meta = { ...newConversation(this.meta.settings), title: `${this.meta.title} (fork)` };
        const copy = new Tree(meta);
        let parent = null;
        for (const { id, ...fields } of this.path(message.id))
            parent = copy.add(parent, { ...structuredClone(fields), conversation: meta.id, parent }).id;
        return copy;
    }

    /* Calls of a message that no tool message on the path answers. */
    openCalls(message) {
        const answered = new Set(this.path().filter(({ role }) => role === "tool").map(({ call }) => call));
        return (message.calls ?? []).filter(({ id }) => !answered.has(id));
    }
}

function titleOf(text) {
    const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
    return line.length > 60 ? line.slice(0, 59).trimEnd() + "…" : line || "Conversation";
}

/* The messages as the chat API takes them. */
export function apiMessages(system, path) {
    const out = system ? [{ role: "system", content: system }] : [];
    for (const message of path) {
        if (message.role === "tool") out.push({ role: "tool", tool_call_id: message.call, content: message.content });
        else if (message.role === "user") out.push({ role: "user", content: message.content });
        else {
            const answer = { role: "assistant", content: message.content };
            if (message.reasoning) answer.reasoning_content = message.reasoning;
            if (message.calls?.length) {
                answer.tool_calls = message.calls.map(({ id, name, arguments: text }) =>
                    ({ id, type: "function", function: { name, arguments: text } }));
            }
            out.push(answer);
        }
    }
    return out;
}

/* ---- Files ---- */

const FORMAT = "sluice-conversations";

/* trees: [Tree]. */
export function exportJson(trees) {
    const conversations = trees.map((tree) => ({ ...tree.meta, messages: [...tree.messages.values()] }));
    return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

const fence = (text) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
    return "`".repeat(longest + 1);
};
const fenced = (text, language = "") => `${fence(text)}${language}\n${text}\n${fence(text)}`;

/* The path that is shown, as Markdown. */
export function exportMarkdown(tree) {
    const parts = [`# ${tree.meta.title}`];
    if (tree.meta.settings?.system) parts.push("## System", tree.meta.settings.system);
    for (const message of tree.path()) {
        if (message.role === "tool") parts.push(`## Result of ${message.name}`, fenced(message.content));
        else parts.push(message.role === "user" ? "## User" : "## Assistant");
        if (message.reasoning) parts.push("<details><summary>Thinking</summary>", fenced(message.reasoning), "</details>");
        if (message.role !== "tool") parts.push(message.content);
        for (const call of message.calls ?? []) parts.push(`Call of ${call.name}:`, fenced(call.arguments, "json"));
    }
    return parts.filter(Boolean).join("\n\n") + "\n";
}

const TEXTS = ["content", "reasoning", "finish", "name", "call"];
const OBJECTS = ["usage", "timings", "sluice"];

function importMessage(found, conversation, ids) {
    if (!["user", "assistant", "tool"].includes(found?.role) || typeof found.content !== "string")
        throw new Error("a message has no role or content");
    const message = { id: newId(), conversation, role: found.role, content: "", state: "done", created: Number(found.created) || 0 };
    if (found.parent !== null && !ids.has(found.parent)) throw new Error("a message comes before the one that it follows");
    message.parent = found.parent === null ? null : ids.get(found.parent);
    for (const name of TEXTS) if (typeof found[name] === "string") message[name] = found[name];
    for (const name of OBJECTS) if (found[name] && typeof found[name] === "object") message[name] = found[name];
    if (Number.isFinite(found.thinking_ms)) message.thinking_ms = found.thinking_ms;
    if (Array.isArray(found.calls))
        message.calls = found.calls.map((call) =>
            ({ id: String(call?.id), name: String(call?.name), arguments: String(call?.arguments) }));
    ids.set(found.id, message.id);
    return message;
}

/* The conversations of a file, with new ids: [Tree].  Throws an Error that says what is wrong with it.
 * clean(settings) makes settings of what the file says of them. */
export function importJson(text, clean) {
    let file;
    try {
        file = JSON.parse(text);
    } catch {
        throw new Error("the file is not JSON");
    }
    if (file?.format !== FORMAT || !Array.isArray(file.conversations)) throw new Error("the file has no conversations of sluice");
    if (file.version !== 1) throw new Error(`the file is of version ${file.version}, expected 1`);
    return file.conversations.map((found) => {
        const meta = newConversation(clean(found?.settings));
        meta.title = typeof found?.title === "string" ? found.title.slice(0, 200) : "Conversation";
        meta.created = Number(found?.created) || meta.created;
        meta.updated = Number(found?.updated) || meta.updated;
        const ids = new Map();
        const messages = (Array.isArray(found?.messages) ? found.messages : []).map((message) => importMessage(message, meta.id, ids));
        meta.head = ids.get(found?.head) ?? null;
        return new Tree(meta, messages);
    });
}
