/** Numbers that a training program writes as JSON Lines: `{"step": 10, "loss": 1.2}`, one step a line. */
import { open } from 'node:fs/promises';
import { isRecord } from '../../ingest/events/json.ts';

type StepMetrics = { readonly step: number; readonly metrics: Readonly<Record<string, number>> };

/** Longest line that is read, in bytes. */
const MOST = 64 * 1024;

/** Reads a file that may not be there yet and grows. */
export function metricsReader(path: string): {
  /** The whole lines written since the last call. */
  readonly read: () => Promise<readonly StepMetrics[]>;
  /** Lines that were no such object. */
  readonly refused: () => number;
} {
  let place = 0;
  let begun = Buffer.alloc(0);
  let refused = 0;
  return {
    refused: () => refused,
    async read() {
      const file = await open(path, 'r').catch(() => null);
      if (file === null) return [];
      try {
        const found: StepMetrics[] = [];
        const part = Buffer.alloc(MOST);
        for (;;) {
          const { bytesRead } = await file.read(part, 0, part.length, place);
          if (bytesRead === 0) return found;
          place += bytesRead;
          const lines = Buffer.concat([begun, part.subarray(0, bytesRead)])
            .toString('latin1')
            .split('\n');
          begun = Buffer.from(lines.pop()!, 'latin1').subarray(0, MOST);
          for (const line of lines.filter((one) => one.trim() !== '')) {
            const metrics = stepMetrics(Buffer.from(line, 'latin1').toString('utf8'));
            if (metrics === null) refused++;
            else found.push(metrics);
          }
        }
      } finally {
        await file.close();
      }
    },
  };
}

/** Null for a line without a whole number as `step`. Values that are no finite numbers are left out: null is unknown. */
function stepMetrics(line: string): StepMetrics | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (!isRecord(value) || !Number.isSafeInteger(value.step) || Number(value.step) < 0) return null;
  const numbers = Object.entries(value).filter(([name, one]) => name !== 'step' && Number.isFinite(one));
  return { step: Number(value.step), metrics: Object.fromEntries(numbers) as Record<string, number> };
}
