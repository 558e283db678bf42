// A file as text, at build time: markup of a tab, and sources that the page shows.
declare module "*?raw" {
  const text: string;
  export default text;
}
