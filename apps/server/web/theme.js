/* theme.js - Sets the theme before the page is drawn.  data-theme: auto, light or dark, as the user chose;
 * data-shade: light or dark, as it is shown. */
(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const root = document.documentElement;
    const themes = ["auto", "light", "dark"];

    window.sluiceTheme = {
        get: () => root.dataset.theme,
        set(theme) {
            root.dataset.theme = themes.includes(theme) ? theme : "auto";
            root.dataset.shade = root.dataset.theme === "auto" ? (dark.matches ? "dark" : "light") : root.dataset.theme;
            window.dispatchEvent(new Event("shadechange"));
        },
        next: () => themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length],
    };
    let chosen = null;
    try {
        chosen = localStorage.getItem("sluice-theme");
    } catch { /* no storage: the system decides */ }
    window.sluiceTheme.set(chosen);
    dark.addEventListener("change", () => window.sluiceTheme.set(window.sluiceTheme.get()));
})();
