// The form that boots a server, optionally into a group.

import { choice, el, field, heading, section, trouble } from "../dom.js";
import { compute, data, images } from "../net.js";

export async function boot(main, { page, query, go }) {
  let offers;
  try {
    offers = await Promise.all([compute("GET", "flavors/detail"), images("images"), data("groups", page.signal)]);
  } catch (error) {
    return page.signal.aborted || main.replaceChildren(trouble(error, () => boot(main, { page, query, go })));
  }
  if (page.signal.aborted) return null;
  const [{ flavors }, { images: known }, { groups }] = offers;
  flavors.sort((a, b) => a.vcpus - b.vcpus || a.ram - b.ram);
  known.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const size = (each) => `${each.name}: ${each.vcpus} VCPU, ${each.ram / 1024} GiB, ${each.disk} GB`;
  const outcome = el("div", { role: "alert" });
  const submit = el("button", { class: "first" }, "Boot");

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    const { name, flavor, image, group } = Object.fromEntries(new FormData(form));
    const body = { server: { name, flavorRef: flavor, imageRef: image, networks: "none" } };
    if (group) body["os:scheduler_hints"] = { group };
    try {
      const { server } = await compute("POST", "servers", body);
      go(`#/servers/${server.id}`);
    } catch (error) {
      outcome.replaceChildren(trouble(error));
      submit.disabled = false;
    }
  }

  const form = el(
    "form",
    { on: { submit: send } },
    field("Name", el("input", { name: "name", required: true, maxlength: 255, value: "server-1" })),
    field(
      "Flavor",
      choice(
        { name: "flavor", required: true },
        flavors.map((each) => [each.id, size(each)]),
      ),
    ),
    field(
      "Image",
      choice(
        { name: "image", required: true },
        known.map((each) => [each.id, each.name]),
      ),
    ),
    field(
      "Group",
      choice(
        { name: "group" },
        [["", "none"], ...groups.map((each) => [each.id, `${each.name}: ${each.words}`])],
        query.get("group") ?? "",
      ),
    ),
    outcome,
    submit,
  );
  main.replaceChildren(heading("Boot a server"), el("div", { class: "narrow" }, section("Server", form)));
  return form.querySelector("input").select();
}
