// The query page: Ctrl-Enter runs the query, and Tab stays what leaves the field. The page is whole without this script.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("query");
  const sql = form && form.elements.namedItem("sql");
  if (!sql) return;
  sql.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
});
