/* heatmap.js - Experts as a picture: a row for each layer, a column for each expert.
 *
 * The server counts since it started; "answer" is the difference to the counts when the answer began, and
 * "recent" the difference to the previous poll. */
import { $, el, percentText, whole } from "./dom.js";

/* Ramps from nothing to much, for a light and a dark page. */
const RAMPS = {
    light: { uses: ["#e7ecf4", "#a9cbe8", "#4a90cf", "#1d5ea8", "#0b2c5f"], misses: ["#f1ebe4", "#f7c795", "#e88736", "#b5480f", "#6b2205"],
        mark: "#d9480f", memory: "#0b7a6b", text: "#4d5666" },
    dark: { uses: ["#26303d", "#1f4a73", "#2f7fbd", "#6fbbe8", "#e3f5ff"], misses: ["#332c27", "#6b3413", "#b8601e", "#f0a04b", "#ffe7bd"],
        mark: "#ff9440", memory: "#3ecfb6", text: "#a3adbb" },
};
const SHADES = 32;
const GUTTER = 26, FOOT = 16; /* room for the numbers of layers and experts */

/* Mode: label, ramp, value of an expert from {uses, misses, inMemory}; NaN: nothing to show. */
const MODES = {
    uses: { label: "Uses", ramp: "uses", value: ({ uses }) => uses },
    misses: { label: "Misses", ramp: "misses", value: ({ misses }) => misses },
    rate: { label: "Miss rate", ramp: "misses", value: ({ uses, misses }) => (uses ? misses / uses : 0), share: true },
    memory: { label: "In memory", ramp: "uses", value: ({ inMemory }) => inMemory, binary: true },
};

function mix(stops, share) {
    const place = Math.min(share, 0.9999) * (stops.length - 1), i = Math.floor(place), part = place - i;
    const channel = (color, at) => parseInt(color.slice(at, at + 2), 16);
    const values = [1, 3, 5].map((at) => Math.round(channel(stops[i], at) * (1 - part) + channel(stops[i + 1], at) * part));
    return `rgb(${values})`;
}

export class Heatmap {
    constructor(frame, legend) {
        this.frame = frame;
        this.legend = legend;
        this.canvas = $("canvas", frame);
        this.tip = $(".tip", frame);
        this.readout = $(".readout", frame);
        this.mode = "uses";
        this.since = "answer";
        this.marks = true;
        this.cell = null; /* [layer, expert] under the pointer or keyboard */
        frame.addEventListener("pointermove", (event) => this.point(event));
        frame.addEventListener("pointerleave", () => this.choose(null));
        frame.addEventListener("keydown", (event) => this.key(event));
        frame.addEventListener("blur", () => this.choose(null));
        new ResizeObserver(() => this.draw()).observe(frame);
    }

    /* data: what /stats/experts says. */
    setData(data) {
        const known = this.data ?? this.base;
        const grown = known?.layers === data.layers && known.experts === data.experts && data.uses.every((uses, i) => uses >= known.uses[i]);
        if (known && !grown) this.base = this.data = null; /* another model, or the server started again */
        this.before = this.data;
        this.data = data;
        this.base ??= data;
        this.draw();
    }

    answerBegins() {
        this.base = this.data ?? null;
    }

    /* The counts of an expert in the period that is shown. */
    at(layer, expert) {
        const { data } = this, i = layer * data.experts + expert;
        const from = { start: null, recent: this.before ?? data, answer: this.base }[this.since];
        return {
            uses: Math.max(0, data.uses[i] - (from ? from.uses[i] : 0)),
            misses: Math.max(0, data.misses[i] - (from ? from.misses[i] : 0)),
            inMemory: data.in_memory[i] ? 1 : 0,
        };
    }

    /* Values of all experts, and the largest. */
    values() {
        const { layers, experts } = this.data;
        const { value } = MODES[this.mode];
        const out = new Float64Array(layers * experts);
        let most = 0;
        for (let i = 0; i < out.length; i++) {
            out[i] = value(this.at(Math.floor(i / experts), i % experts));
            most = Math.max(most, out[i]);
        }
        return { values: out, most: MODES[this.mode].share || MODES[this.mode].binary ? 1 : most };
    }

    /* Sizes in pixels of the page.  Where experts are narrower than a pixel of the screen, a column shows
     * the largest value of several. */
    layout() {
        const { layers, experts } = this.data;
        const width = this.frame.clientWidth, dense = window.devicePixelRatio || 1;
        const columns = Math.min(experts, Math.floor((width - GUTTER) * dense));
        const room = this.frame.classList.contains("large") ? innerHeight - 320 : 260;
        const cellHeight = Math.max(2, Math.min(Math.floor(room / layers), 18));
        return { width, dense, columns, cellWidth: (width - GUTTER) / columns, cellHeight, height: cellHeight * layers + FOOT };
    }

    draw() {
        if (!this.data || this.frame.clientWidth < GUTTER * 2) return;
        const place = (this.place = this.layout());
        const { canvas } = this;
        canvas.width = Math.round(place.width * place.dense);
        canvas.height = Math.round(place.height * place.dense);
        canvas.style.height = `${place.height}px`;
        const ramp = RAMPS[document.documentElement.dataset.shade ?? "light"];
        const context = canvas.getContext("2d");
        context.setTransform(place.dense, 0, 0, place.dense, 0, 0);
        this.drawCells(context, ramp);
        this.drawAxes(context, ramp);
        this.drawCell(context, ramp);
        this.drawLegend();
        if (this.cell) this.tell();
    }

    drawCells(context, ramp) {
        const { layers, experts } = this.data, { columns, cellWidth, cellHeight } = this.place;
        const { values, most } = this.values();
        this.most = most;
        const stops = ramp[MODES[this.mode].ramp];
        const shades = Array.from({ length: SHADES }, (_, i) => mix(stops, i / (SHADES - 1)));
        const gapX = cellWidth >= 4 ? 1 : 0, gapY = cellHeight >= 4 ? 1 : 0;
        const markable = this.mode !== "misses" && cellWidth >= 4 && cellHeight >= 4, marked = markable && this.marks;
        this.frame.dataset.markable = markable;
        for (let layer = 0; layer < layers; layer++) {
            for (let column = 0; column < columns; column++) {
                const from = Math.floor(column * experts / columns), end = Math.floor((column + 1) * experts / columns);
                let value = 0;
                for (let expert = from; expert < Math.max(end, from + 1); expert++) value = Math.max(value, values[layer * experts + expert]);
                const share = most ? Math.sqrt(value / most) : 0;
                context.fillStyle = shades[share ? Math.max(3, Math.round(share * (SHADES - 1))) : 0];
                const x = GUTTER + column * cellWidth, y = layer * cellHeight;
                context.fillRect(x, y, cellWidth - gapX, cellHeight - gapY);
                if (marked) this.drawMark(context, ramp.mark, x, y, this.at(layer, from));
            }
        }
    }

    /* A dot where the expert was read from disk in the period: the larger, the more of its uses were misses. */
    drawMark(context, color, x, y, { uses, misses }) {
        if (!misses) return;
        const { cellWidth, cellHeight } = this.place, most = Math.min(cellWidth, cellHeight) - 2;
        const size = Math.max(1.5, most * 0.7 * Math.sqrt(Math.min(1, misses / Math.max(1, uses))));
        context.fillStyle = color;
        context.fillRect(x + (cellWidth - 1 - size) / 2, y + (cellHeight - 1 - size) / 2, size, size);
    }

    drawAxes(context, ramp) {
        const { layers, experts } = this.data, { columns, cellWidth, cellHeight } = this.place;
        context.fillStyle = ramp.text;
        context.font = "10px system-ui, sans-serif";
        context.textBaseline = "middle";
        context.textAlign = "right";
        const step = Math.max(1, Math.ceil(14 / cellHeight));
        for (let layer = 0; layer < layers; layer += step)
            context.fillText(String(layer), GUTTER - 5, Math.max(5, layer * cellHeight + cellHeight / 2));
        context.textBaseline = "alphabetic";
        const every = experts <= 40 ? 8 : experts <= 160 ? 32 : 64;
        for (let expert = 0; expert < experts; expert += every) {
            context.textAlign = expert ? "center" : "left";
            const x = GUTTER + (expert ? (expert + 0.5) * columns / experts * cellWidth : 0);
            context.fillText(String(expert), x, layers * cellHeight + FOOT - 4);
        }
    }

    drawCell(context, ramp) {
        if (!this.cell) return;
        const { columns, cellWidth, cellHeight } = this.place;
        const column = Math.floor(this.cell[1] * columns / this.data.experts);
        context.strokeStyle = ramp.text;
        context.lineWidth = 2;
        context.strokeRect(GUTTER + column * cellWidth - 1, this.cell[0] * cellHeight - 1,
            Math.max(4, cellWidth + 1), Math.max(4, cellHeight + 1));
    }

    drawLegend() {
        const ramp = RAMPS[document.documentElement.dataset.shade ?? "light"][MODES[this.mode].ramp];
        const { share, binary } = MODES[this.mode];
        const swatches = (binary ? [0, 1] : [0, 0.25, 0.5, 0.75, 1]).map((at) => {
            const swatch = el("i", {});
            swatch.style.background = mix(ramp, at);
            return swatch;
        });
        const [least, most] = binary ? ["on disk", "in memory"] : ["0", share ? "100 %" : whole(this.most ?? 0)];
        this.legend.replaceChildren(least, el("span", { class: "ramp", "aria-hidden": "true" }, ...swatches), most);
        this.frame.setAttribute("aria-label", `Heat-map of ${this.data.layers} layers with ${this.data.experts} experts; ` +
            "arrow keys move between experts, the table below says the same");
    }

    /* ---- The expert under the pointer or the keyboard ---- */

    point(event) {
        if (!this.place) return;
        const box = this.canvas.getBoundingClientRect();
        const x = (event.clientX - box.left - GUTTER) / (box.width - GUTTER), y = (event.clientY - box.top) / this.place.cellHeight;
        const inside = x >= 0 && x < 1 && y >= 0 && y < this.data.layers;
        this.choose(inside ? [Math.floor(y), Math.floor(x * this.data.experts)] : null);
    }

    key(event) {
        const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!step || !this.data) return;
        event.preventDefault();
        const { layers, experts } = this.data, [layer, expert] = this.cell ?? [0, 0];
        const moved = this.cell ? [layer + step[0], expert + step[1]] : [0, 0];
        this.choose([(moved[0] + layers) % layers, (moved[1] + experts) % experts]);
        this.readout.textContent = this.textOf(...this.cell);
    }

    choose(cell) {
        if (String(cell) === String(this.cell)) return;
        this.cell = cell;
        if (!cell) this.tip.hidden = true;
        this.draw();
    }

    textOf(layer, expert) {
        const { uses, misses, inMemory } = this.at(layer, expert);
        const total = this.data.uses[layer * this.data.experts + expert];
        return `Layer ${layer}, expert ${expert}: ${whole(uses)} uses` + (this.since === "start" ? "" : ` (${whole(total)} in all)`) +
            `, ${whole(misses)} misses, ${inMemory ? "in memory" : "on disk"}`;
    }

    tell() {
        const { tip, place } = this, [layer, expert] = this.cell;
        tip.textContent = this.textOf(layer, expert);
        tip.hidden = false;
        const x = GUTTER + (expert + 0.5) / this.data.experts * (place.width - GUTTER);
        tip.style.left = `${Math.max(0, Math.min(x - tip.offsetWidth / 2, place.width - tip.offsetWidth))}px`;
        tip.style.top = `${(layer + 1) * place.cellHeight + 6}px`;
    }

    /* The rows of a table that says the same: [layer, uses, misses, hits of uses, in memory, most used]. */
    rows() {
        const { layers, experts } = this.data ?? { layers: 0 };
        return Array.from({ length: layers }, (_, layer) => {
            const counts = Array.from({ length: experts }, (_, expert) => ({ expert, ...this.at(layer, expert) }));
            const sum = (name) => counts.reduce((total, count) => total + count[name], 0);
            const uses = sum("uses"), misses = sum("misses");
            const most = counts.filter((count) => count.uses).sort((a, b) => b.uses - a.uses).slice(0, 3);
            return [layer, whole(uses), whole(misses), uses ? percentText(1 - misses / uses) : "–",
                `${sum("inMemory")} of ${experts}`, most.map((count) => `${count.expert} (${whole(count.uses)})`).join(", ") || "–"];
        });
    }
}

export const heatmapModes = Object.entries(MODES).map(([name, { label }]) => [name, label]);
