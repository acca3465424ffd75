// Wide tables scroll: with this, by the keyboard too.
addEventListener("load", () => setTimeout(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
}));
