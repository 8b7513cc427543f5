/* frame.js - Drawers, theme and keyboard. */
import { $, icon, local } from "./dom.js";

const NARROW = matchMedia("(max-width: 760px)");   /* the list is a drawer */
const MEDIUM = matchMedia("(max-width: 1120px)");  /* so is the panel */

function remembered(name, usual) {
    const value = local.getItem(name);
    return value === null ? usual : value === "yes";
}

/* A part at the side of the page: a column that can be folded, or a drawer above the page where it is narrow. */
class Drawer {
    constructor(name, query, onOpen) {
        this.part = $(`#${name}`);
        this.toggleButton = $(`#${name}-toggle`);
        this.query = query;
        this.onOpen = onOpen;
        this.name = `sluice-${name}`;
        this.isOpen = !query.matches && remembered(this.name, true);
        this.toggleButton.addEventListener("click", () => this.set(!this.isOpen, true));
        $(`#${name}-close`).addEventListener("click", () => this.set(false, true));
        query.addEventListener("change", () => this.set(!query.matches && remembered(this.name, true), false));
        this.show();
    }

    get isDrawer() {
        return this.query.matches;
    }

    /* byUser: it is remembered, and the focus follows. */
    set(open, byUser) {
        this.isOpen = open;
        if (byUser && !this.isDrawer) local.setItem(this.name, open ? "yes" : "no");
        this.show();
        if (byUser && this.isDrawer) (open ? $("button", this.part) : this.toggleButton).focus();
        if (open) this.onOpen();
    }

    show() {
        document.body.classList.toggle(`${this.part.id}-open`, this.isOpen);
        this.part.inert = !this.isOpen;
        this.toggleButton.setAttribute("aria-expanded", String(this.isOpen));
        $("#backdrop").hidden = !Drawer.all.some((drawer) => drawer.isDrawer && drawer.isOpen);
    }
}
Drawer.all = [];

export function connectDrawers(onPanel) {
    const list = new Drawer("list", NARROW, () => {});
    const panel = new Drawer("panel", MEDIUM, onPanel);
    Drawer.all.push(list, panel);
    const closeDrawers = () => Drawer.all.forEach((drawer) => drawer.isDrawer && drawer.isOpen && drawer.set(false, true));
    $("#backdrop").addEventListener("click", closeDrawers);
    document.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || $("#backdrop").hidden || $("dialog[open]")) return;
        event.stopImmediatePropagation();
        closeDrawers();
    });
    return {
        openList: () => list.set(true, true),
        closeList: () => list.isDrawer && list.isOpen && list.set(false, false),
        togglePanel: () => panel.set(!panel.isOpen, true),
    };
}

export function connectTheme(onChange) {
    const button = $("#theme");
    const show = () => {
        const theme = window.sluiceTheme.get();
        button.replaceChildren(icon({ auto: "auto", light: "sun", dark: "moon" }[theme]));
        button.setAttribute("aria-label", `Theme: ${{ auto: "as the system", light: "light", dark: "dark" }[theme]}`);
        button.title = button.getAttribute("aria-label");
        onChange();
    };
    button.addEventListener("click", () => {
        local.setItem("sluice-theme", window.sluiceTheme.next());
        window.sluiceTheme.set(window.sluiceTheme.next());
    });
    addEventListener("shadechange", show);
    show();
}

/* actions: newOne(), stop(), busy(), openList(), togglePanel(). */
export function connectKeyboard(actions) {
    const keys = {
        "ctrl+k": () => {
            actions.openList();
            $("#search").focus();
            $("#search").select();
        },
        "alt+n": actions.newOne,
        "alt+l": actions.togglePanel,
    };
    document.addEventListener("keydown", (event) => {
        if ($("dialog[open]") || !event.key) return; /* a browser that fills in a field sends no key */
        const name = `${event.ctrlKey || event.metaKey ? "ctrl+" : ""}${event.altKey ? "alt+" : ""}${event.key.toLowerCase()}`;
        const writing = event.target.matches("input, textarea, select");
        if (keys[name]) keys[name]();
        else if (event.key === "?" && !writing) $("#help").showModal();
        else if (event.key === "Escape" && actions.busy()) actions.stop();
        else return;
        event.preventDefault();
    });
}
