// token.js -- the field for the token: shown as long as the page has none.
import {isLocked, keepToken, probeToken, token} from "./api.js";
import {byId, setAttribute, setText} from "./dom.js";

const LOCKED = "This server shows nothing without its token: mtctl serve printed it at the end of its address, after #token=; " +
	"with --token-file it is in that file.";
const OPEN = "Cleanups, snapshots and profiles need the token of this server.";

export class TokenField {
	#done;

	// done(): called when a token was taken.
	constructor(done) {
		this.#done = done;
		byId("token-form").addEventListener("submit", (event) => {
			event.preventDefault();
			this.#take(byId("token-input").value.trim());
		});
	}

	// error: of the last request for figures; null: they came.
	refresh(error) {
		byId("token-form").hidden = token() !== null || (error !== null && !isLocked(error));
		setText(byId("token-why"), error === null ? OPEN : LOCKED);
		if (isLocked(error) && error.message.startsWith("this is not"))
			this.say("The token is wrong: " + error.message + ".");
	}

	say(text) {
		setText(byId("token-said"), text);
		setAttribute(byId("token-input"), "aria-invalid", text === "" ? null : "true");
	}

	// A whole address is as good as the token alone.
	async #take(text) {
		const given = text.includes("token=") ? text.split("token=").at(-1) : text;

		if (given === "")
			return this.say("Enter the token.");
		keepToken(given);
		const error = await probeToken().then(() => null, (reason) => reason);

		if (error !== null && error.status !== 403) { // 403: it is for reading alone
			keepToken(null);
			return this.say(isLocked(error) ? "The token is wrong: this is not the token of this server." :
				`No answer from mtctl serve: ${error.message}`);
		}
		this.say("");
		byId("token-input").value = "";
		byId("token-form").hidden = true;
		this.#done();
	}
}
