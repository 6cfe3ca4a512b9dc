"use strict";
(() => {
  // --- the section in view, marked in the table of contents ---
  const nav = document.querySelector("nav");
  const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const sections = [...document.querySelectorAll("main > section")];
  let current = null;
  function mark() {
    const edge = window.innerHeight / 3;
    const seen = sections.filter((section) => section.getBoundingClientRect().top <= edge).pop() || sections[0];
    const link = links.get(seen.id);
    if (!link || link === current) return;
    if (current) current.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    current = link;
    // Only the table of contents scrolls along, never the page.
    const box = link.getBoundingClientRect();
    const frame = nav.getBoundingClientRect();
    if (box.left < frame.left || box.right > frame.right) nav.scrollLeft += box.left - frame.left - frame.width / 3;
    if (box.top < frame.top || box.bottom > frame.bottom) nav.scrollTop += box.top - frame.top - frame.height / 3;
  }
  document.addEventListener("scroll", mark, { passive: true });
  window.addEventListener("resize", mark);
  mark();

  // --- paper: the checks are opened, and closed again afterwards ---
  const opened = [];
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details.on-paper:not([open])").forEach((element) => {
      element.open = true;
      opened.push(element);
    });
  });
  window.addEventListener("afterprint", () => {
    opened.splice(0).forEach((element) => { element.open = false; });
  });
})();
