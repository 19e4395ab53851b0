// In a worker: serve. In the page: start.
if (typeof document === "undefined") serve(self);
else start();
