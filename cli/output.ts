/**
 * What people and programs see: data on stdout, everything else on stderr; with --json one JSON document and nothing else on stdout.
 */
import cliProgress from 'cli-progress';
import pc from 'picocolors';
import { environmentError } from '../store/db/faults.ts';

const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
/** Colours only where a person looks: a pipe, NO_COLOR and a dumb terminal have none. */
export const paint = pc.createColors(
  !NO_COLOR && (!!FORCE_COLOR || (process.stdout.isTTY === true && TERM !== 'dumb')),
);

/** Whoever reads our output may stop before its end (`| head`); that is no error. */
export function toleratePipes(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    throw error;
  });
}

export type Level = 'info' | 'warn' | 'error';

/**
 * Terminals obey control characters, with which a recorded text could write over what stands there or fill the clipboard: all become
 * U+FFFD but line breaks, tabs and colours.
 */
export const forTerminal = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  text.replaceAll(/\u001B(?!\[[0-9;]{0,12}m)|[^\P{Cc}\n\t\u001B]/gu, '\uFFFD');

/** A program reads what it is given, byte for byte. */
const shownTo = ({ isTTY }: NodeJS.WriteStream, text: string): string => (isTTY ? forTerminal(text) : text);

let write = (text: string, _level: Level): void => {
  process.stderr.write(`${shownTo(process.stderr, text)}\n`);
};

export const say = (text: string, level: Level = 'info'): void => write(text, level);

/** Redirects the output of `say`: the log of a process is read by programs. */
export function sayTo(log: (text: string, level: Level) => void): void {
  write = log;
}

/** Reports an error that is being waited out, once a minute at most. `who`: The projector. */
export function troubleReporter(who: string): (error: unknown) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (error === undefined || performance.now() - last < 60_000) return;
    last = performance.now();
    const known = environmentError(error) ?? error;
    say(`${who} waits and retries: ${known instanceof Error ? known.message : known}`, 'warn');
  };
}

/** The same JSON with the control characters that JSON writes as they are, U+007F to U+009F, as escapes. */
const escapedJson = (json: string): string =>
  json.replaceAll(/\p{Cc}/gu, (c) => (c === '\n' ? c : `\\u00${c.charCodeAt(0).toString(16).padStart(2, '0')}`));

export const printJson = (value: unknown): void => {
  const { isTTY } = process.stdout;
  const json = JSON.stringify(value, null, isTTY ? 2 : 0);
  process.stdout.write(`${isTTY ? escapedJson(json) : json}\n`);
};

export const print = (text: string): void => {
  process.stdout.write(`${shownTo(process.stdout, text)}\n`);
};

type OutputFlags = { readonly json?: boolean; readonly quiet?: boolean };

/** What a command has found or done: one document with `--json`, else text for people, if there is any. */
export function answer({ json = false }: OutputFlags, found: unknown, text: string | (() => string)): void {
  const shown = json || typeof text === 'string' ? text : text();
  if (json) printJson(found);
  else if (shown !== '') print(shown as string);
}

/** Says something beside the answer, where a person reads it. */
export function remark({ json = false, quiet = false }: OutputFlags, text: string): void {
  if (!json && !quiet) say(text);
}

const graphemes = new Intl.Segmenter();
/** What takes two columns of a terminal: emoji, and the scripts of East Asia (Unicode, UAX 11). */
const WIDE =
  /^(?:\p{Emoji_Presentation}|.\uFE0F|[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFD}])/u;

/** How many columns of a terminal a text takes. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  return Array.from(graphemes.segment(text)).reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0);
}

/** A plain table: columns as wide as their widest cell, numbers to the right. A cell longer than `most` is cut. */
export function table(head: readonly string[], rows: readonly (readonly unknown[])[], most = 80): string {
  const cells = rows.map((row) => row.map((value) => cell(value, most)));
  const widths = head.map((name, i) =>
    cells.reduce((widest, row) => Math.max(widest, widthOf(row[i] ?? '')), widthOf(name)),
  );
  const numeric = head.map(
    (_, i) => rows.some((row) => row[i] !== null) && rows.every((row) => row[i] === null || typeof row[i] === 'number'),
  );
  const line = (row: readonly string[]) =>
    row
      .map((text, i) => {
        const room = ' '.repeat(widths[i]! - widthOf(text));
        return numeric[i] ? room + text : text + room;
      })
      .join('  ')
      .trimEnd();
  return [paint.bold(line(head)), ...cells.map(line)].join('\n');
}

function cell(value: unknown, most: number): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return String(Number(Math.abs(value) < 1 ? value.toPrecision(4) : value.toFixed(4)));
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const flat = text.replaceAll(/\p{Cc}+/gu, ' ');
  // A character may be two code units: none is cut in half.
  return flat.length <= most ? flat : `${flat.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

export type Bar = { readonly update: (done: number, total: number, note?: string) => void; readonly stop: () => void };

/** A progress bar with time left on a terminal; elsewhere one line every few seconds, so that logs stay short. */
export function progressBar(label: string, { quiet = false, json = false }: OutputFlags = {}): Bar {
  if (quiet || json) return { update: () => {}, stop: () => {} };
  const every = 5000;
  let next = 0;
  let nextOpen = performance.now() + every;
  let whole = false;
  /** Of work whose total is not known, what is said of it. */
  const open = (note: string) => {
    if (note === '' || performance.now() < nextOpen) return;
    nextOpen = performance.now() + every;
    say(`${label}: ${note}`);
  };
  if (!process.stderr.isTTY) {
    return {
      update: (done, total, note = '') => {
        if (total === 0) return open(note);
        const now = performance.now();
        if (whole || (now < next && done < total)) return;
        whole = done >= total;
        next = now + every;
        say(`${label}: ${Math.floor((100 * done) / total)} % ${note}`.trimEnd());
      },
      stop: () => {},
    };
  }
  const bar = new cliProgress.SingleBar({
    format: `${label} {bar} {percentage} % · {eta_formatted} left · {note}`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: false,
    etaBuffer: 50,
  });
  let started = false;
  return {
    update: (done, total, note = '') => {
      if (total === 0) return open(note);
      if (!started) {
        bar.start(total, done, { note });
        started = true;
      }
      bar.setTotal(total);
      bar.update(done, { note });
    },
    stop: () => {
      if (started) bar.stop();
    },
  };
}

/** Six digits of a number, as tables show it. */
export const rounded = (value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);
