// Takes the token out of the address, where no server and no log sees it, and exchanges it for a cookie.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  fetch("/enter", { method: "POST", body: token }).then(async (answer) => {
    if (answer.ok) location.replace("/play");
    else document.getElementById("entering").textContent = await answer.text();
  });
}
