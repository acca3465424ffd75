// Wide tables scroll: with this, by the keyboard too. And a button to copy code is no landmark of the page.
addEventListener("load", () => setTimeout(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
  for (const button of document.querySelectorAll(".md-code__nav")) button.setAttribute("role", "none");
}));
