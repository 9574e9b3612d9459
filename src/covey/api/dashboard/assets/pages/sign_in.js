// The sign-in form of each authentication strategy.

import { el, field, trouble } from "../dom.js";
import { ask, credentials, setIdentity } from "../net.js";

const HINTS = {
  basic: "Use a name and a password of the users file.",
  keystone: "Use your cloud account. Keystone issues a token for this tab.",
  none: "Authentication is disabled. Enter any name; admin is the operator.",
};

export async function signIn(main, message, done) {
  let session;
  try {
    session = await ask("GET", "session");
  } catch (error) {
    return main.replaceChildren(trouble(error, () => signIn(main, message, done)));
  }
  const text = (name, more = {}) =>
    el("input", { name, required: true, autocapitalize: "none", spellcheck: "false", ...more });
  const fields = [field("Name", text("name", { autocomplete: "username" }))];
  if (session.auth !== "none") {
    fields.push(field("Password", text("password", { type: "password", autocomplete: "current-password" })));
  }
  if (session.auth === "keystone") {
    fields.push(field("Project", text("project")), field("Domain", text("domain", { value: "Default" })));
  }
  if (session.auth === "none")
    fields.push(field("Project", text("project", { required: false }), "Defaults to the name."));
  const outcome = el("div", { role: "alert" }, message ? el("p", { class: "note bad" }, message) : "");
  const submit = el("button", { class: "first" }, "Sign in");

  async function sign(event) {
    event.preventDefault();
    submit.disabled = true;
    try {
      setIdentity(await credentials(session.auth, Object.fromEntries(new FormData(form))));
      await done();
    } catch (error) {
      setIdentity(null);
      const rejected = error.status === 401 && session.auth === "basic";
      const reason = rejected ? "The name or the password is wrong." : error.message;
      outcome.replaceChildren(el("p", { class: "note bad" }, reason));
      submit.disabled = false;
    }
  }

  const form = el("form", { on: { submit: sign } }, fields, outcome, submit);
  main.replaceChildren(
    el(
      "section",
      { class: "card narrow" },
      el("h1", {}, "Sign in to Covey"),
      el("p", { class: "quiet" }, HINTS[session.auth] ?? ""),
      form,
      el("p", { class: "quiet small" }, `Covey ${session.version}`),
    ),
  );
  form.querySelector("input").focus();
}
