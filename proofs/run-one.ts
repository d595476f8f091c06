/** Runs one proof for `proofs/run.ts`, which starts this with its name and takes the result as a message: `run-one.ts NAME [--full]`. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeFolder } from '../test/support/remove-folder.ts';
import { missingClients } from './clients.ts';
import { findKafka } from './kafka.ts';
import type { Proof } from './proof.ts';
import { findPython } from './python.ts';
import { findVersitygw } from './s3.ts';

export type Result = {
  readonly name: string;
  readonly verdict: 'ok' | 'FAILED' | 'skipped';
  readonly checks: number;
  readonly seconds: number;
  /** The checks that failed, as they were printed. */
  readonly failed: readonly string[];
};

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

const [name, ...options] = process.argv.slice(2);
const { proof } = (await import(`./${name}.ts`)) as { proof: Proof };
const result = await run(proof, !options.includes('--full'));
process.send!(result, () => process.exit());

async function run(proof: Proof, short: boolean): Promise<Result> {
  const began = performance.now();
  const { name, needs } = proof;
  const ended = (verdict: Result['verdict'], lines: readonly string[]): Result => ({
    name,
    verdict,
    checks: lines.length,
    failed: lines.filter((line) => line.startsWith('NOT OK')),
    seconds: (performance.now() - began) / 1000,
  });
  const python = needs.includes('python') ? findPython(process.env) : { python: '' };
  const s3 = needs.includes('s3') ? findVersitygw(process.env) : { versitygw: '' };
  const kafka = needs.includes('kafka') ? findKafka(process.env) : { jars: '' };
  const clients = needs.includes('clients') ? missingClients(process.env) : null;
  const missing = [python, s3, kafka].flatMap((part) => ('missing' in part ? [part.missing] : []));
  if (clients !== null) missing.push(clients);
  if ('missing' in python || missing.length > 0) {
    say(`skipped: ${missing[0]}`);
    return ended('skipped', []);
  }
  // Yours is for the proofs of Kafka: the others would write to it.
  if (!needs.includes('kafka')) delete process.env.KAFKA_BROKERS;
  const scratch = mkdtempSync(join(tmpdir(), `troupe-proof-${name}-`));
  try {
    const { ok, lines, skipped = [] } = await proof.run({ short, python: python.python, scratch, say });
    for (const why of skipped) say(`skipped: ${why}`);
    if (lines.length === 0 && skipped.length > 0) return ended('skipped', []);
    return ended(ok ? 'ok' : 'FAILED', lines);
  } catch (error) {
    const line = `NOT OK  ${(error as Error).message}`;
    say(line);
    return ended('FAILED', [line]);
  } finally {
    removeFolder(scratch);
  }
}
