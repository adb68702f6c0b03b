// Only conveniences: the page says everything without them.
(function () {
  "use strict";
  if (!navigator.clipboard) return;
  document.querySelectorAll("pre.paste").forEach(function (block) {
    var text = block.textContent, button = document.createElement("button");
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(text).then(function () { button.textContent = "copied"; },
                                               function () { button.textContent = "not allowed"; });
    });
    block.appendChild(button);
  });
})();
