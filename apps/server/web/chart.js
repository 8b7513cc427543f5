/* chart.js - A small line of the last two minutes, in SVG, and a bar of parts. */
import { el } from "./dom.js";

const SECONDS = 120, WIDTH = 300, HEIGHT = 44;
const GAP_MS = 4000; /* a longer pause between samples breaks the line */

const svg = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
};

export class Chart {
    /* text(value): a value with its unit. */
    constructor(root, label, text) {
        this.label = label;
        this.text = text;
        this.samples = [];
        this.line = svg("path", { class: "line" });
        this.area = svg("path", { class: "area" });
        this.picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "chart" });
        this.picture.append(this.area, this.line);
        this.most = el("span", { class: "most" });
        root.append(this.picture, this.most);
    }

    push(value) {
        const now = performance.now();
        this.samples.push([now, value]);
        while (this.samples[0][0] < now - SECONDS * 1000) this.samples.shift();
        this.draw(now);
    }

    draw(now) {
        const most = Math.max(...this.samples.map(([, value]) => value));
        const scale = most > 0 ? (HEIGHT - 4) / most : 0;
        const parts = [];
        this.samples.forEach(([time, value], i) => {
            if (!i || time - this.samples[i - 1][0] > GAP_MS) parts.push([]);
            parts.at(-1).push([WIDTH - (now - time) / 1000 * WIDTH / SECONDS, HEIGHT - 1 - value * scale]);
        });
        const points = (part) => part.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
        this.line.setAttribute("d", parts.map((part) => "M" + points(part)).join(""));
        const below = (point) => `${point[0].toFixed(1)} ${HEIGHT}`;
        this.area.setAttribute("d", parts.map((part) => `M${below(part[0])}L${points(part)}L${below(part.at(-1))}Z`).join(""));
        this.most.textContent = most > 0 ? `max ${this.text(most)}` : "";
        const last = this.text(this.samples.at(-1)[1]);
        this.picture.setAttribute("aria-label", `${this.label} in the last two minutes: now ${last}, at most ${this.text(most)}`);
    }
}

/* A bar of parts with its legend: parts are [name, size, text], total is the whole bar. */
export function drawBar(bar, legend, parts, total, label) {
    bar.replaceChildren(...parts.map(([name, size], i) => {
        const part = el("i", { class: `part part-${i}`, title: name });
        part.style.width = `${total ? size / total * 100 : 0}%`;
        return part;
    }));
    bar.setAttribute("aria-label", label + ": " + parts.map(([name, , text]) => `${name} ${text}`).join(", "));
    legend.replaceChildren(...parts.map(([name, , text], i) =>
        el("li", {}, el("i", { class: `swatch part-${i}`, "aria-hidden": "true" }), el("span", {}, name), el("b", {}, text))));
}
