/* list.js - The list of conversations, with search. */
import { $, el, iconButton } from "./dom.js";
import { openMenu } from "./dialogs.js";

const DAY = 86400000;
const GROUPS = [[0, "Today"], [1, "Yesterday"], [7, "Last seven days"], [Infinity, "Earlier"]];

function groupOf(time) {
    const midnight = new Date().setHours(0, 0, 0, 0);
    const days = Math.max(0, Math.ceil((midnight - time) / DAY));
    return GROUPS.find(([limit]) => days <= limit)[1];
}

export class ConversationList {
    /* actions: open(id), rename(meta), exportJson(meta), exportMarkdown(meta), remove(meta), isBusy(id). */
    constructor(root, store, actions) {
        this.root = root;
        this.store = store;
        this.actions = actions;
        this.current = null;
        $("#search").addEventListener("input", () => {
            clearTimeout(this.timer);
            this.timer = setTimeout(() => this.refresh(), 120);
        });
        $("#search").addEventListener("keydown", (event) => {
            if (event.key === "ArrowDown" || event.key === "Enter") {
                event.preventDefault();
                const first = $(".item", this.root);
                if (event.key === "Enter") first?.click();
                else first?.focus();
            }
        });
        root.addEventListener("keydown", (event) => {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (!step || !event.target.matches(".item")) return;
            event.preventDefault();
            const items = [...root.querySelectorAll(".item")];
            (items[items.indexOf(event.target) + step] ?? $("#search")).focus();
        });
    }

    async refresh() {
        const turn = (this.turn = (this.turn ?? 0) + 1);
        const text = $("#search").value.trim();
        const [all, found] = await Promise.all([this.store.conversations(), text ? this.store.search(text) : null]);
        if (turn !== this.turn) return;
        const shown = found ? all.filter(({ id, title }) => found.has(id) || title.toLowerCase().includes(text.toLowerCase())) : all;
        const groups = new Map();
        for (const meta of shown) {
            const group = groupOf(meta.updated);
            if (!groups.has(group)) groups.set(group, []);
            groups.get(group).push(this.item(meta));
        }
        this.root.replaceChildren(...[...groups].flatMap(([group, items]) =>
            [el("h3", {}, group), el("ul", { "aria-label": group }, ...items)]));
        const hint = text ? "Nothing found." : "Conversations appear here. They stay in this browser.";
        if (!shown.length) this.root.append(el("p", { class: "hint" }, hint));
    }

    item(meta) {
        const current = meta.id === this.current;
        const menu = iconButton("dots", `Actions of ${meta.title}`, () => openMenu(menu, [
            ["Rename", () => this.actions.rename(meta)],
            ["Export as JSON", () => this.actions.exportJson(meta)],
            ["Export as Markdown", () => this.actions.exportMarkdown(meta)],
            ["Delete", () => this.actions.remove(meta), true],
        ]), { "aria-haspopup": "menu", "aria-expanded": "false" });
        const busy = this.actions.isBusy(meta.id) && el("span", { class: "live-dot", role: "img", "aria-label": "being answered" });
        const open = el("button", { type: "button", class: "item", "aria-current": current && "page", title: meta.title,
            onclick: () => this.actions.open(meta.id) }, busy, meta.title);
        return el("li", { class: current ? "current" : "" }, open, menu);
    }
}
