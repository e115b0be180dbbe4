/** Starts the page: reads the records it was written with and shows them. */

import { Application } from "./application.js";
import { Store } from "./store.js";

const embedded = document.getElementById("records");
const records = JSON.parse(embedded?.textContent ?? "[]");
embedded?.remove(); // a large record need not be kept twice

const store = new Store(location.hash);
store.followAddress();
const host = document.createElement("div");
host.className = "page";
document.body.append(host);
new Application(host, store, "live" in document.documentElement.dataset).show(records);
