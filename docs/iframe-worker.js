/* The site's search runs in a worker, which browsers refuse to pages opened as files. There a hidden frame takes its
 * place: the worker's script runs in the frame, and messages go to and fro as events. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = () => {
        this.#waiting.forEach((data) => this.#deliver(data));
        this.#waiting = null;
      };
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `${url} cannot be loaded` }));
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#deliver(data);
    }

    terminate() {
      this.#frame.remove();
    }

    #deliver(data) {
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
