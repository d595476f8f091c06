/** Progress of a copy whose length is not known before its end. */
import { bytesText } from '../api/operations/bytes.ts';
import type { Flags } from './command.ts';
import { say } from './output.ts';

const EVERY_MS = 10_000;

/** How much there is in all is not known before the end, so there is no share to show. */
export function growing(label: string, { quiet, json }: Flags): (bytes: number) => void {
  let last = performance.now();
  return (bytes) => {
    if (quiet || json || performance.now() - last < EVERY_MS) return;
    last = performance.now();
    say(`${label}: ${bytesText(bytes)} of rows and files so far, as they are unpacked`);
  };
}
