// Another width: of the window, or on paper, in light colours and no wider than a page for as long as it is printed.

const PAPER = 690;

/** Pixels across that a drawing has in a box. */
const room = (box) => Math.min(box.clientWidth, "paper" in document.documentElement.dataset ? PAPER : Infinity);

/** @param {() => void} draw  everything, at once */
function onOtherWidth(draw) {
  const { dataset } = document.documentElement;
  let theme, waiting = 0;
  addEventListener("resize", () => (clearTimeout(waiting), (waiting = setTimeout(draw, 80))));
  addEventListener("beforeprint", () => {
    if (!("paper" in dataset)) theme = dataset.theme;
    dataset.paper = "";
    dataset.theme = "light";
    draw();
  });
  addEventListener("afterprint", () => {
    if (!("paper" in dataset)) return;
    delete dataset.paper;
    if (theme) dataset.theme = theme;
    else delete dataset.theme;
    draw();
  });
}
