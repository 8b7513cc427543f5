/* settings.js - What a conversation asks of the model: system prompt, sampling, schema, tools; presets; the
 * dialog that edits them.  A value of null leaves the choice to the server. */
import { $, el, local } from "./dom.js";
import { ask, confirmed } from "./dialogs.js";

/* Numbers: name in requests, label, least, most, step, what it does. */
const NUMBERS = [
    ["temperature", "Temperature", 0, 1000, 0.05, "0: always the most likely token"],
    ["top_k", "Top-k", 0, 1e9, 1, "sample from the k most likely tokens; 0: from all"],
    ["top_p", "Top-p", 0, 1, 0.01, "from the most likely tokens with this total probability"],
    ["min_p", "Min-p", 0, 1, 0.01, "drop tokens below this share of the highest probability"],
    ["repeat_penalty", "Repeat penalty", 0.01, 100, 0.01, "1: none"],
    ["max_tokens", "Max tokens", 1, 1e9, 1, "of an answer, thinking included"],
    ["seed", "Seed", 0, 2 ** 53 - 1, 1, "the same seed gives the same answer"],
];
const WHOLE = new Set(["top_k", "max_tokens", "seed"]);
const TEXTS = ["system", "stop", "schema", "tools"];
const THINKING = ["default", "on", "off"];

const BUILT_IN = [
    { name: "The model's own", settings: {} },
    { name: "Precise", settings: { temperature: 0 } },
    { name: "Balanced", settings: { temperature: 0.7, top_p: 0.9, min_p: 0.05 } },
    { name: "Imaginative", settings: { temperature: 1.1, top_p: 0.97, min_p: 0.05 } },
];

/* Settings made of anything: unknown and malformed values are left out. */
export function cleanSettings(found) {
    const settings = { thinking: THINKING.includes(found?.thinking) ? found.thinking : "default" };
    for (const name of TEXTS) settings[name] = typeof found?.[name] === "string" ? found[name] : "";
    for (const [name, , least, most] of NUMBERS) {
        const value = found?.[name];
        settings[name] = typeof value === "number" && value >= least && value <= most ? value : null;
    }
    return settings;
}

/* The fields of a chat request. */
export function requestFields(settings) {
    const fields = {};
    for (const [name] of NUMBERS) if (settings[name] !== null) fields[name] = settings[name];
    const stop = settings.stop.split("\n").filter(Boolean);
    if (stop.length) fields.stop = stop;
    if (settings.schema.trim())
        fields.response_format = { type: "json_schema",
            json_schema: { name: "answer", strict: true, schema: JSON.parse(settings.schema) } };
    if (settings.tools.trim()) fields.tools = JSON.parse(settings.tools).map(asTool);
    if (settings.thinking !== "default") fields.chat_template_kwargs = { enable_thinking: settings.thinking === "on" };
    return fields;
}

/* A tool may be given with or without its {type: "function"} envelope. */
const asTool = (tool) => (tool?.function ? tool : { type: "function", function: tool });

const FAULTS = {
    schema: (value) => (value && typeof value === "object" && !Array.isArray(value) ? "" : "a JSON schema is an object"),
    tools: (value) => (!Array.isArray(value) ? "tools are a JSON list"
        : value.every((tool) => typeof asTool(tool).function?.name === "string") ? "" : "each tool has a name"),
};

/* What is wrong with the JSON of a field; "": nothing. */
function faultOf(name, text) {
    if (!text.trim()) return "";
    try {
        return FAULTS[name](JSON.parse(text));
    } catch (error) {
        return `not JSON: ${error.message}`;
    }
}

/* ---- What the browser keeps ---- */

function stored(name, fallback) {
    try {
        return JSON.parse(local.getItem(name)) ?? fallback;
    } catch {
        return fallback;
    }
}

const store = (name, value) => local.setItem(name, JSON.stringify(value));

export const defaults = () => cleanSettings(stored("sluice-defaults", {}));

function presets() {
    const own = stored("sluice-presets", []);
    return Array.isArray(own) ? own.filter(({ name }) => typeof name === "string") : [];
}

/* ---- The dialog ---- */

export class SettingsDialog {
    /* serverDefaults(): values of /props by name, for placeholders. */
    constructor(dialog, serverDefaults) {
        this.dialog = dialog;
        this.form = $("form", dialog);
        this.serverDefaults = serverDefaults;
        for (const row of NUMBERS) $("#numbers", dialog).append(this.numberField(...row));
        this.form.addEventListener("submit", (event) => this.submit(event));
        $("#settings-cancel").addEventListener("click", () => dialog.close());
        $("#preset").addEventListener("change", () => this.applyPreset());
        $("#preset-save").addEventListener("click", () => this.savePreset());
        $("#preset-delete").addEventListener("click", () => this.deletePreset());
        for (const name of Object.keys(FAULTS)) this.form.elements[name].addEventListener("input", () => this.check(name));
    }

    numberField(name, label, least, most, step, help) {
        const input = el("input", { type: "number", id: `set-${name}`, name, min: String(least), max: String(most), step: "any",
            inputmode: "decimal", "aria-describedby": `help-${name}` });
        return el("div", { class: "field" }, el("label", { for: input.id }, label), input, el("small", { id: `help-${name}` }, help));
    }

    /* onSave(settings) is called if the user saves. */
    open(settings, onSave) {
        this.onSave = onSave;
        this.fill(settings);
        this.fillPresets("");
        const known = this.serverDefaults();
        for (const [name] of NUMBERS) {
            const value = known[name];
            this.form.elements[name].placeholder = typeof value !== "number" ? "default"
                : value === 0 && name !== "temperature" ? "off" : String(Math.round(value * 1e4) / 1e4);
        }
        this.dialog.showModal();
    }

    fill(settings) {
        for (const [name] of NUMBERS) this.form.elements[name].value = settings[name] ?? "";
        for (const name of TEXTS) this.form.elements[name].value = settings[name];
        this.form.elements.thinking.value = settings.thinking;
        for (const name of Object.keys(FAULTS)) this.check(name);
    }

    read() {
        const found = { thinking: this.form.elements.thinking.value };
        for (const name of TEXTS) found[name] = this.form.elements[name].value;
        for (const [name] of NUMBERS) {
            const { value } = this.form.elements[name];
            if (value !== "") found[name] = WHOLE.has(name) ? Math.round(Number(value)) : Number(value);
        }
        return cleanSettings(found);
    }

    check(name) {
        const field = this.form.elements[name];
        const fault = faultOf(name, field.value);
        field.setCustomValidity(fault);
        field.setAttribute("aria-invalid", fault ? "true" : "false");
        $(`#fault-${name}`).textContent = fault;
        return !fault;
    }

    submit(event) {
        event.preventDefault();
        const settings = this.read();
        if (this.form.elements.everywhere.checked) store("sluice-defaults", settings);
        this.dialog.close();
        this.onSave(settings);
    }

    fillPresets(selected) {
        const options = (list, own) => list.map(({ name }) =>
            el("option", { value: (own ? "own:" : "") + name, selected: name === selected }, name));
        const own = presets();
        $("#preset").replaceChildren(el("option", { value: "-" }, "Choose…"),
            el("optgroup", { label: "Built in" }, ...options(BUILT_IN, false)),
            ...(own.length ? [el("optgroup", { label: "Yours" }, ...options(own, true))] : []));
        $("#preset-delete").disabled = !$("#preset").value.startsWith("own:");
    }

    applyPreset() {
        const { value } = $("#preset");
        const own = value.startsWith("own:");
        $("#preset-delete").disabled = !own;
        const preset = own ? presets().find(({ name }) => "own:" + name === value) : BUILT_IN.find(({ name }) => name === value);
        if (!preset) return;
        /* Built-in presets are about sampling only. */
        this.fill(own ? cleanSettings(preset.settings) : { ...this.read(), ...numbersOf(cleanSettings(preset.settings)) });
    }

    async savePreset() {
        const name = await ask("Save as a preset", "Name", "");
        if (!name) return;
        store("sluice-presets", [...presets().filter((preset) => preset.name !== name), { name, settings: this.read() }]);
        this.fillPresets(name);
    }

    async deletePreset() {
        const { value } = $("#preset");
        if (!value.startsWith("own:") || !(await confirmed(`Delete the preset “${value.slice(4)}”?`, "Delete"))) return;
        store("sluice-presets", presets().filter(({ name }) => "own:" + name !== value));
        this.fillPresets("");
    }
}

/* All numbers but the seed and the length, which are not a matter of taste. */
const numbersOf = (settings) => Object.fromEntries(NUMBERS.filter(([name]) => name !== "seed" && name !== "max_tokens")
    .map(([name]) => [name, settings[name]]));
