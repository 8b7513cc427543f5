/* chat.js - The messages of the path that is shown. */
import { $, bytesText, copyText, el, icon, iconButton, percentText, rateText, secondsText, countText, whole } from "./dom.js";
import { MarkdownView } from "./markdown.js";

const FRAME_MS = 40;      /* at most 25 renderings of a growing answer in a second */
const ELSEWHERE_MS = 6000; /* an answer that another tab stored longer ago was interrupted */
const NEAR = 80;          /* pixels from the end at which the view follows the answer */

/* One message.  update() shows what the message has become. */
class MessageView {
    constructor(message, context) {
        this.message = message;
        this.context = context;
        this.body = el("div", { class: "body" });
        this.footer = el("div", { class: "footer" });
        const name = { user: "Your message", assistant: "Answer", tool: "Result of a tool" }[message.role];
        this.node = el("article", { class: `message ${message.role}`, tabIndex: -1, "aria-label": name },
            el("h2", { class: "offscreen" }, name), this.body, this.footer);
        this.build();
        this.update();
    }

    build() {
        const { message } = this;
        if (message.role === "user") this.body.append(el("div", { class: "bubble" }, message.content));
        else if (message.role === "tool") {
            this.body.append(el("details", { class: "tool-result" },
                el("summary", {}, icon("tool"), `Result of ${message.name || "the tool"}`), el("pre", { tabIndex: 0 }, message.content)));
        } else this.buildAnswer();
    }

    buildAnswer() {
        this.thoughts = el("div", { class: "markdown" });
        this.summary = el("summary", {}, "Thinking");
        this.thinking = el("details", { class: "thinking", hidden: true }, this.summary, this.thoughts);
        this.thinking.addEventListener("toggle", () => this.updateThinking());
        this.status = el("div", { class: "status", hidden: true });
        this.content = el("div", { class: "markdown content" });
        this.calls = el("div", { class: "calls" });
        this.note = el("div", { class: "note" });
        this.body.append(this.thinking, this.content, this.calls, this.status, this.note);
        this.thoughtsView = new MarkdownView(this.thoughts);
        this.contentView = new MarkdownView(this.content);
    }

    update() {
        if (this.message.role === "assistant") this.updateAnswer();
        const state = `${this.message.state} ${this.context.branch(this.message)}`;
        if (state !== this.footerState) {
            this.footerState = state;
            this.footer.replaceChildren(...this.context.footer(this.message));
        }
    }

    updateAnswer() {
        const { message } = this;
        const began = performance.now();
        const streaming = message.state === "streaming";
        this.node.classList.toggle("streaming", streaming);
        this.updateThinking();
        this.contentView.update(message.content);
        this.updateCalls();
        const status = streaming ? this.context.status(message) : "";
        this.status.hidden = !status;
        if (status) this.status.replaceChildren(...status);
        if (!streaming || message.state !== this.noteState) this.note.replaceChildren(...this.context.note(message));
        this.noteState = message.state;
        this.cost = performance.now() - began;
    }

    /* Open while it is written, unless the user closed it; folded when the answer begins. */
    updateThinking() {
        const { message } = this;
        if (!message.reasoning) return;
        const thinking = message.state === "streaming" && message.thinking_ms === undefined;
        if (this.thinking.hidden) {
            this.thinking.hidden = false;
            this.thinking.open = thinking;
        } else if (this.wasThinking && !thinking) this.thinking.open = false;
        this.wasThinking = thinking;
        this.summary.textContent = thinking ? "Thinking…"
            : message.thinking_ms === undefined ? "Thoughts" : `Thought for ${secondsText(message.thinking_ms / 1000)}`;
        if (this.thinking.open) this.thoughtsView.update(message.reasoning);
    }

    updateCalls() {
        const text = JSON.stringify(this.message.calls ?? []);
        if (text === this.callsText) return;
        this.callsText = text;
        this.calls.replaceChildren(...(this.message.calls ?? []).map((call) => el("div", { class: "call" },
            el("div", { class: "call-head" }, icon("tool"), el("span", {}, "Calls "), el("code", {}, call.name || "…")),
            el("pre", { tabIndex: 0, "aria-label": `Arguments of ${call.name}` }, prettyArguments(call.arguments)))));
    }

    /* Renders soon, and more rarely when rendering is slow. */
    schedule(after) {
        if (this.timer) return;
        this.timer = setTimeout(() => {
            this.timer = 0;
            this.update();
            after();
        }, Math.max(FRAME_MS, 3 * (this.cost ?? 0)));
    }
}

function prettyArguments(text) {
    try {
        return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
        return text; /* not complete yet, or not JSON */
    }
}

/* The figures under an answer. */
function figuresOf({ timings, usage, sluice }) {
    const out = [];
    const generated = timings?.predicted_n ?? usage?.completion_tokens;
    const rate = timings?.predicted_per_second;
    if (generated) out.push(countText(generated, "token") + (rate ? ` at ${rateText(rate)}/s` : ""));
    const cached = timings?.cache_n ?? usage?.prompt_tokens_details?.cached_tokens;
    if (usage?.prompt_tokens) out.push(`prompt ${whole(usage.prompt_tokens)}${cached ? `, ${whole(cached)} reused` : ""}`);
    const looked = (sluice?.hits ?? 0) + (sluice?.misses ?? 0);
    if (looked) out.push(`${percentText(sluice.hits / looked)} expert hits`);
    if (sluice?.bytes_read) out.push(`${bytesText(sluice.bytes_read)} read`);
    if (sluice?.stall_ms >= 1) out.push(`stalled ${secondsText(sluice.stall_ms / 1000)}`);
    return out;
}

export class ChatView {
    /* actions: edit(message, text), regenerate, fork, remove, branch(message, step), results(message, texts),
     * retry(message), generationOf(message). */
    constructor(root, scroller, actions) {
        this.root = root;
        this.scroller = scroller;
        this.actions = actions;
        this.views = new Map();
        this.follow = true;
        scroller.addEventListener("scroll", () => {
            this.follow = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
            $("#jump").hidden = this.follow;
        }, { passive: true });
        $("#jump").addEventListener("click", () => this.toEnd());
        root.addEventListener("click", (event) => this.copyCode(event));
    }

    show(tree) {
        this.tree = tree;
        this.views.clear();
        const path = tree.path();
        for (const message of path) this.views.set(message.id, new MessageView(message, this));
        this.root.replaceChildren(...[...this.views.values()].map(({ node }) => node));
        const last = path.at(-1);
        if (last?.role === "assistant" && last.state !== "streaming") this.addResults(last);
        if (this.follow) this.toEnd();
    }

    /* The message has changed: it is rendered soon. */
    update(message) {
        const view = this.views.get(message.id);
        if (!view) return;
        if (message.state === "streaming") view.schedule(() => this.follow && this.toEnd());
        else {
            clearTimeout(view.timer);
            view.update();
            this.addResults(message);
            if (this.follow) this.toEnd();
        }
    }

    toEnd() {
        this.follow = true;
        this.scroller.scrollTop = this.scroller.scrollHeight;
        $("#jump").hidden = true;
    }

    focusMessage(id) {
        this.views.get(id)?.node.focus();
    }

    async copyCode(event) {
        const button = event.target.closest(".copy-code");
        if (button) markCopied(button, await copyText($("code", button.closest(".code")).textContent));
    }

    /* ---- What a MessageView asks ---- */

    branch(message) {
        return [this.tree.place(message) + 1, this.tree.siblings(message).length];
    }

    status(message) {
        const generation = this.actions.generationOf(message);
        if (!generation) return this.statusElsewhere(message);
        if (!generation.waiting) return "";
        const progress = generation.progress;
        const dots = el("span", { class: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
        if (!progress?.total) return [dots, "Waiting for the first token"];
        const share = Math.min(1, progress.processed / progress.total);
        return [el("progress", { max: 1, value: share, "aria-label": "Prompt computed" }),
            `Reading the prompt: ${whole(progress.processed)} of ${countText(progress.total, "token")}` +
            (progress.cache ? `, ${whole(progress.cache)} reused` : "")];
    }

    /* An answer that this tab does not write: another one does, or it was closed. */
    statusElsewhere(message) {
        if (Date.now() - message.updated >= ELSEWHERE_MS) return ["This answer was interrupted."];
        setTimeout(() => this.views.get(message.id)?.update(), ELSEWHERE_MS);
        return ["Another tab is writing this answer, or did until a moment ago."];
    }

    note(message) {
        const { state, error, finish } = message;
        if (state === "failed") {
            const wait = error?.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
            return [el("div", { class: "error", role: "alert" }, el("span", {}, (error?.message ?? "The answer failed.") + wait),
                el("button", { type: "button", onclick: () => this.actions.retry(message) }, "Retry"))];
        }
        if (state === "stopped") return [el("span", { class: "hint" }, "Stopped.")];
        if (finish === "length") return [el("span", { class: "hint" }, "The answer reached the limit of tokens.")];
        return [];
    }

    footer(message) {
        if (message.state === "streaming" && this.actions.generationOf(message)) return [];
        const [place, count] = this.branch(message);
        const step = (name, label, by, possible) =>
            iconButton(name, label, () => this.actions.branch(message, by), { disabled: !possible });
        const branches = count > 1 ? el("span", { class: "branches", role: "group", "aria-label": "Versions" },
            step("left", "Previous version", -1, place > 1), el("span", {}, `${place}/${count}`),
            step("right", "Next version", 1, place < count)) : null;
        const copy = iconButton("copy", "Copy", async () => markCopied(copy, await copyText(message.content)));
        const buttons = [branches, copy,
            message.role === "user" && iconButton("edit", "Edit", () => this.startEdit(message), { class: "icon-button edit" }),
            message.role === "assistant" && iconButton("redo", "Regenerate", () => this.actions.regenerate(message)),
            iconButton("fork", "Fork into a new conversation", () => this.actions.fork(message)),
            iconButton("trash", "Delete from here", () => this.actions.remove(message))];
        const figures = message.role === "assistant" ? figuresOf(message) : [];
        return [...(figures.length ? [el("div", { class: "figures" }, ...figures.map((text) => el("span", {}, text)))] : []),
            el("div", { class: "actions" }, ...buttons.filter(Boolean))];
    }

    /* ---- Editing a message, and results of tools ---- */

    startEdit(message) {
        const view = this.views.get(message.id);
        if (!view || $("form", view.node)) return;
        const rows = Math.min(12, message.content.split("\n").length + 1);
        const field = el("textarea", { value: message.content, "aria-label": "Edit the message", rows });
        const close = () => {
            form.remove();
            view.node.classList.remove("editing");
            $(".edit", view.node)?.focus();
        };
        const form = el("form", { class: "edit-form" }, field, el("div", { class: "buttons" },
            el("button", { type: "button", onclick: close }, "Cancel"), el("button", { class: "primary" }, "Send")));
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            if (field.value.trim()) this.actions.edit(message, field.value);
        });
        field.addEventListener("keydown", (event) => {
            if (event.key === "Escape") close();
            else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) form.requestSubmit();
            else return;
            event.preventDefault();
            event.stopPropagation();
        });
        view.node.classList.add("editing");
        view.body.append(form);
        field.focus();
        field.setSelectionRange(field.value.length, field.value.length);
    }

    /* Boxes for the results of calls that nobody answered yet. */
    addResults(message) {
        const open = this.tree.openCalls(message);
        if (!open.length) return;
        const fields = open.map((call) => el("textarea", { id: `result-${call.id}`, rows: 3, placeholder: "JSON or text" }));
        const label = open.length > 1 ? "Continue with these results" : "Continue with this result";
        const form = el("form", { class: "results" },
            ...open.flatMap((call, i) => [el("label", { for: fields[i].id }, `Result of ${call.name}`), fields[i]]),
            el("div", { class: "buttons" }, el("button", { class: "primary" }, label)));
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.actions.results(message, open.map((call, i) => ({ call, text: fields[i].value })));
        });
        this.views.get(message.id).calls.append(form);
    }
}

function markCopied(button, done) {
    const before = [...button.childNodes];
    button.replaceChildren(done ? (button.matches(".icon-button") ? icon("check") : "Copied") : "Failed");
    setTimeout(() => button.replaceChildren(...before), 1500);
}

/* Reads an answer to screen readers in sentences, not in tokens. */
export class Announcer {
    constructor(region) {
        this.region = region;
    }

    say(text) {
        this.region.append(el("p", {}, text));
        while (this.region.childNodes.length > 8) this.region.firstChild.remove();
    }

    begin() {
        this.spoken = 0;
        this.last = performance.now();
        this.say("The answer begins.");
    }

    update(content, final) {
        if (!final && performance.now() - this.last < 3000) return;
        const rest = content.slice(this.spoken);
        const end = final ? rest.length : Math.max(...[". ", "! ", "? ", "\n"].map((mark) => rest.lastIndexOf(mark) + 1));
        if (end > 0) this.say(rest.slice(0, end));
        this.spoken += end;
        this.last = performance.now();
        if (final) this.say("The answer is complete.");
    }
}
