// Signing in, by whatever way the service knows people.

import { el, field, trouble } from "../dom.js";
import { ask, become, credentials } from "../net.js";

const WORDS = {
  basic: "With the name and the password of the service's users file.",
  keystone: "With your cloud account. The password goes to Keystone, which gives a token for this tab.",
  none: "This service believes everybody. Say who you are; admin is the operator.",
};

export async function signIn(main, said, done) {
  let how;
  try {
    how = await ask("GET", "session");
  } catch (error) {
    return main.replaceChildren(trouble(error, () => signIn(main, said, done)));
  }
  const text = (name, more = {}) =>
    el("input", { name, required: true, autocapitalize: "none", spellcheck: "false", ...more });
  const fields = [field("Name", text("name", { autocomplete: "username" }))];
  if (how.auth !== "none") {
    fields.push(field("Password", text("password", { type: "password", autocomplete: "current-password" })));
  }
  if (how.auth === "keystone") {
    fields.push(field("Project", text("project")), field("Domain", text("domain", { value: "Default" })));
  }
  if (how.auth === "none")
    fields.push(field("Project", text("project", { required: false }), "As your name, if left empty."));
  const outcome = el("div", { role: "alert" }, said ? el("p", { class: "note bad" }, said) : "");
  const submit = el("button", { class: "first" }, "Sign in");

  async function sign(event) {
    event.preventDefault();
    submit.disabled = true;
    try {
      become(await credentials(how.auth, Object.fromEntries(new FormData(form))));
      await done();
    } catch (error) {
      become(null);
      const wrong = error.status === 401 && how.auth === "basic" ? "The name or the password is wrong." : error.message;
      outcome.replaceChildren(el("p", { class: "note bad" }, wrong));
      submit.disabled = false;
    }
  }

  const form = el("form", { on: { submit: sign } }, fields, outcome, submit);
  main.replaceChildren(
    el(
      "section",
      { class: "card narrow" },
      el("h1", {}, "Sign in to Covey"),
      el("p", { class: "quiet" }, WORDS[how.auth] ?? ""),
      form,
      el("p", { class: "quiet small" }, `Covey ${how.version}`),
    ),
  );
  form.querySelector("input").focus();
}
