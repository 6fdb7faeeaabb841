// Search runs in a worker, and browsers start none for a page that is opened as a file. Then a hidden frame takes its
// place: it loads the same script and passes messages. The idea is that of squidfunk/iframe-worker.
if (location.protocol === "file:") {
  const importInOrder = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = done;
    document.body.appendChild(script);
  })), Promise.resolve());

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write(
        `<body><script>postMessage = (message) => parent.postMessage(message, "*"); importScripts = ${importInOrder};</scr` +
        `ipt><script src="${url}"></scr` + "ipt></body>");
      inside.document.close();
      this.ready = new Promise((done) => { inside.onload = done; });
      window.addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
