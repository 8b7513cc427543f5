/* panel.js - The live panel: speed, this answer, experts, disk, prefixes, memory.  The server is asked only
 * while the page is visible and the panel is open. */
import { Chart, drawBar } from "./chart.js";
import { $, bytesText, countText, el, percentText, rateText, secondsText, whole } from "./dom.js";
import { Heatmap, heatmapModes } from "./heatmap.js";
import { getJson } from "./stream.js";

const STATS_MS = 750;
const EXPERTS_BUSY_MS = 1000, EXPERTS_IDLE_MS = 4000;
const COST = 10; /* a poll waits at least this many times as long as the last one took */

/* Memory: name in /stats, what it is called. */
const MEMORY = [["weights", "weights"], ["experts", "experts"], ["state", "KV and state"], ["checkpoints", "checkpoints"],
    ["prefixes", "prefix cache"], ["sessions", "sessions"], ["workspace", "workspace"], ["programs", "programs"],
    ["other", "other"]];
const OTHER = ["text", "files", "loading", "process"];

export class Panel {
    /* onStats(stats or null), onError(error): the page's own state follows. */
    constructor(root, { onStats, onError }) {
        this.root = root;
        this.onStats = onStats;
        this.onError = onError;
        this.heatmap = new Heatmap($("#heatmap"), $("#heat-legend"));
        this.speed = new Chart($("#speed-chart"), "Tokens per second", (value) => `${rateText(value)}/s`);
        this.disk = new Chart($("#disk-chart"), "Bytes read from disk", (value) => `${bytesText(value)}/s`);
        this.nextExperts = 0;
        this.connectHeatmap();
        document.addEventListener("visibilitychange", () => this.poll());
    }

    get active() {
        return document.visibilityState === "visible" && !this.root.hidden && !this.root.inert;
    }

    connectHeatmap() {
        const { heatmap } = this;
        const redraw = () => {
            heatmap.draw();
            this.drawTable();
        };
        $("#heat-mode").append(...heatmapModes.map(([name, label]) => el("option", { value: name }, label)));
        $("#heat-mode").addEventListener("change", (event) => {
            heatmap.mode = event.target.value;
            redraw();
        });
        $("#heat-since").addEventListener("change", (event) => {
            heatmap.since = event.target.value;
            redraw();
        });
        $("#heat-marks").addEventListener("change", (event) => {
            heatmap.marks = event.target.checked;
            redraw();
        });
        $("#heat-table").addEventListener("toggle", () => this.drawTable());
        this.redraw = redraw;
        this.enlarge();
    }

    /* The map moves into a dialog and back. */
    enlarge() {
        const dialog = $("#heat-dialog"), home = $("#heat-home"), body = $("#heat-body");
        $("#heat-enlarge").addEventListener("click", () => {
            $("#heat-place").append(body);
            $("#heatmap").classList.add("large");
            dialog.showModal();
            this.redraw();
        });
        dialog.addEventListener("close", () => {
            home.append(body);
            $("#heatmap").classList.remove("large");
            this.redraw();
            $("#heat-enlarge").focus();
        });
    }

    /* An answer begins: its figures are differences to now. */
    answerBegins(generation) {
        this.generation = generation;
        this.base = this.stats;
        this.heatmap.answerBegins();
        if (!this.active) this.takeBase();
        this.nextExperts = 0;
        this.poll();
    }

    /* Nothing was polled lately: what the server counts now is asked for once. */
    async takeBase() {
        try {
            [this.base, this.heatmap.base] = await Promise.all([getJson("/stats"), getJson("/stats/experts")]);
        } catch { /* then the figures begin with the next poll */ }
    }

    answerEnds() {
        this.nextExperts = 0;
        this.poll();
    }

    /* Polls now, and goes on while it is active. */
    async poll() {
        clearTimeout(this.timer);
        if (!this.active || this.polling) return;
        this.polling = true;
        const began = performance.now();
        let wait = STATS_MS;
        try {
            const stats = await getJson("/stats");
            this.takeStats(stats);
            const busy = stats.requests?.live > 0 || this.generation?.message.state === "streaming";
            if (stats.experts?.layers && performance.now() >= this.nextExperts) await this.pollExperts(busy);
        } catch (error) {
            this.fail(error);
            wait = 5000;
        }
        this.polling = false;
        this.timer = setTimeout(() => this.poll(), Math.max(wait, 2 * (performance.now() - began)));
    }

    async pollExperts(busy) {
        const began = performance.now();
        const data = await getJson("/stats/experts");
        const cost = performance.now() - began;
        this.nextExperts = performance.now() + Math.max(busy ? EXPERTS_BUSY_MS : EXPERTS_IDLE_MS, COST * cost) - STATS_MS / 2;
        this.heatmap.setData(data);
        this.drawTable();
        $("#experts").hidden = false;
    }

    fail(error) {
        this.root.classList.add("stale");
        const unknown = error.kind === "refused";
        $("#panel-note").textContent = unknown ? "This server gives no statistics." : error.message;
        $("#panel-note").hidden = false;
        if (!unknown) this.onError(error);
    }

    takeStats(stats) {
        this.root.classList.remove("stale");
        $("#panel-note").hidden = true;
        const now = performance.now();
        if (this.stats && stats.uptime_seconds < this.stats.uptime_seconds) this.base = null; /* it started again */
        const seconds = this.stats ? (now - this.statsAt) / 1000 : 0;
        const read = stats.experts && this.stats?.experts ? Math.max(0, stats.experts.bytes_read - this.stats.experts.bytes_read) : 0;
        this.readRate = seconds > 0 && seconds < 5 ? read / seconds : 0;
        this.stats = stats;
        this.statsAt = now;
        this.speed.push(stats.rates?.generated_per_second ?? 0);
        this.disk.push(this.readRate);
        this.draw();
        this.onStats(stats);
    }

    draw() {
        const { stats } = this;
        $("#speed-now").textContent = rateText(stats.rates?.generated_per_second ?? 0);
        $("#prefill-now").textContent = rateText(stats.rates?.prefilled_per_second ?? 0);
        this.drawAnswer();
        this.drawDisk();
        this.drawMemory();
        this.drawPrefix();
        this.drawServer();
    }

    /* Called for each chunk too: cheap. */
    drawAnswer() {
        const { generation } = this;
        const progress = generation?.progress;
        const busy = Boolean(generation?.waiting);
        $("#prefill").hidden = !busy;
        if (busy) {
            const share = progress?.total ? progress.processed / progress.total : 0;
            $("#prefill progress").value = share;
            $("#prefill span").textContent = progress?.total
                ? `Prompt: ${whole(progress.processed)} of ${whole(progress.total)} tokens` + this.remaining(progress)
                : "Waiting for the first token";
        }
        if (!generation) return;
        facts($("#answer-facts"), this.answerFacts(generation));
        $("#answer").hidden = false;
    }

    remaining({ total, cache = 0, processed, time_ms: passed }) {
        const done = processed - cache;
        return done > 0 && passed > 1000 ? `, about ${secondsText((total - processed) * passed / done / 1000)} left` : "";
    }

    answerFacts(generation) {
        const { message } = generation, { timings, usage, sluice } = message;
        const seconds = ((generation.ended ?? performance.now()) - generation.began) / 1000;
        const first = (generation.firstToken - generation.began) / 1000;
        const counts = sluice ?? this.sinceAnswer();
        const stalled = (counts?.stall_ms ?? 0) / 1000;
        const looked = (counts?.hits ?? 0) + (counts?.misses ?? 0);
        const cached = timings?.cache_n ?? usage?.prompt_tokens_details?.cached_tokens ?? generation.progress?.cache;
        return [
            ["Generated", countText(timings?.predicted_n ?? usage?.completion_tokens ?? generation.chunks, "token")],
            timings?.predicted_per_second && ["On average", `${rateText(timings.predicted_per_second)} tokens/s`],
            ["Time", secondsText(seconds) + (first > 0 ? `, first token after ${secondsText(first)}` : "")],
            usage && ["Prompt", countText(usage.prompt_tokens, "token")],
            cached !== undefined && ["Reused of it", countText(cached, "token")],
            sluice?.reuse && ["Why not more", sluice.reuse],
            looked > 0 && ["Expert hits", `${percentText(counts.hits / looked)} (${countText(counts.misses, "miss", "misses")})`],
            counts && ["Read from disk", bytesText(counts.bytes_read ?? 0)],
            counts && ["Stalled", `${secondsText(stalled)}, ${percentText(Math.min(1, stalled / seconds))} of the time`],
        ];
    }

    /* While an answer is written: all that the server did since it began, for whomever. */
    sinceAnswer() {
        const now = this.stats?.experts, base = this.base?.experts;
        if (!now || !base) return null;
        return { hits: now.hits - base.hits, misses: now.misses - base.misses, bytes_read: now.bytes_read - base.bytes_read,
            stall_ms: (now.stall_seconds - base.stall_seconds) * 1000 };
    }

    drawDisk() {
        const experts = this.stats.experts;
        $("#disk").hidden = !experts?.layers;
        if (!experts?.layers) return;
        const looked = experts.hits + experts.misses;
        $("#disk-now").textContent = `${bytesText(this.readRate)}/s`;
        facts($("#disk-facts"), [
            ["Read in all", bytesText(experts.bytes_read)],
            experts.read_seconds > 0 && ["While reading", `${bytesText(experts.bytes_read / experts.read_seconds)}/s`],
            ["Waited for the disk", secondsText(experts.stall_seconds)],
            looked > 0 && ["Expert hits", percentText(experts.hits / looked)],
            experts.misses > 0 && ["Misses", `${whole(experts.misses)}, ${whole(experts.first_reads ?? 0)} of them first reads`],
            ["Room for", `${whole(experts.slots)} of ${whole(experts.layers * experts.experts)} experts ` +
                `(${bytesText(experts.budget_bytes)})`],
        ]);
    }

    drawMemory() {
        const memory = this.stats.memory ?? {};
        const size = (name) => (name === "other" ? OTHER.reduce((sum, part) => sum + (memory[part] ?? 0), 0) : memory[name] ?? 0);
        const parts = MEMORY.map(([name, label]) => [label, size(name), bytesText(size(name))]);
        const sum = parts.reduce((total, [, bytes]) => total + bytes, 0);
        $("#memory-now").textContent = bytesText(memory.promised ?? sum);
        drawBar($("#memory-bar"), $("#memory-legend"), parts, Math.max(memory.promised ?? 0, sum), "Memory");
    }

    drawPrefix() {
        const { prefix = {}, tokens = {} } = this.stats;
        const reused = prefix.tokens ? prefix.reused / prefix.tokens : 0;
        $("#prefix-now").textContent = percentText(reused);
        facts($("#prefix-facts"), [
            ["Prompt tokens reused", `${whole(prefix.reused ?? 0)} of ${whole(prefix.tokens ?? 0)}`],
            ["Generated tokens", whole(tokens.generated ?? 0)],
            prefix.last_text && ["The last prompt", prefix.last_text],
        ]);
    }

    drawServer() {
        const { stats } = this, requests = stats.requests ?? {};
        const counted = (...names) => names.map((name) => `${whole(requests[name] ?? 0)} ${name}`).join(", ");
        facts($("#server-facts"), [
            ["Model", stats.model],
            ["Context", countText(stats.context_tokens ?? 0, "token")],
            ["Requests", counted("live", "queued", "finished")],
            (requests.failed || requests.cancelled) && ["Of others", counted("cancelled", "failed")],
            ["Sessions", whole(stats.sessions ?? 0)],
            ["Up", secondsText(stats.uptime_seconds ?? 0)],
            stats.version && ["Version", stats.version],
        ]);
    }

    drawTable() {
        if (!$("#heat-table").open) return;
        $("#heat-table tbody").replaceChildren(...this.heatmap.rows().map(([layer, ...cells]) =>
            el("tr", {}, el("th", { scope: "row" }, String(layer)), ...cells.map((cell) => el("td", {}, cell)))));
    }
}

/* A list of names and values; rows that are not arrays are left out. */
function facts(list, rows) {
    const wanted = rows.filter(Array.isArray);
    if (list.children.length !== wanted.length * 2)
        list.replaceChildren(...wanted.flatMap(() => [el("dt"), el("dd")]));
    wanted.flat().forEach((text, i) => {
        if (list.children[i].textContent !== text) list.children[i].textContent = text;
    });
}
