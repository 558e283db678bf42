// A small picture of the last minute: bytes that came, before the bytes that a plain JSON feed would have taken.
// Not here: counting (instruments.ts), colours (demo.css).
// Read next: instruments.ts.

/** Seconds that are shown, one bar each. */
const SECONDS = 60;

interface Second {
  readonly sent: number;
  readonly plain: number;
}

export class Flow {
  private seconds: Second[] = [];

  constructor(private readonly canvas: HTMLCanvasElement) {
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  add(sent: number, plain: number): void {
    this.seconds = [...this.seconds, { sent, plain }].slice(-SECONDS);
    this.draw();
  }

  clear(): void {
    this.seconds = [];
    this.draw();
  }

  private draw(): void {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const context = canvas.getContext("2d");
    if (context === null || width === 0) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    context.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const most = Math.max(1, ...this.seconds.map(({ sent, plain }) => Math.max(sent, plain)));
    const step = width / SECONDS;
    const bar = (bytes: number, index: number): void => {
      const high = (bytes / most) * (height - 1);
      context.fillRect(width - (this.seconds.length - index) * step, height - high, Math.max(1, step - 1), high);
    };
    context.fillStyle = style.getPropertyValue("--line");
    this.seconds.forEach(({ plain }, index) => bar(plain, index));
    context.fillStyle = style.getPropertyValue("--accent");
    this.seconds.forEach(({ sent }, index) => bar(sent, index));
  }
}
