// Browsers start no worker from a file on disk. There, the site's search runs in a hidden frame instead, which has the
// same two functions: messages that are posted to it come as events, and what it posts comes back as events.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const page = this.frame.contentDocument;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => {
        const script = page.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = resolve;
        page.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
