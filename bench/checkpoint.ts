/**
 * `bench checkpoint`: saving weights and optimizer as a checkpoint, whole and durable, against writing as many bytes to one
 * file of the same folder and flushing it. What was saved is read back and compared before its time counts.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { parameterCount, type Size, sizesNamed, writeModel } from './models.ts';
import type { Measured } from './statistics.ts';
import { type Memory, mebibytes, startOurs, type Timed } from './worker.ts';

type Written = Timed & { readonly bytes: number; readonly same: boolean; readonly checking_cpu_seconds: number };

/** Of a round, about: small checkpoints are saved several times. */
const MEGABYTES_A_ROUND = 40;

export const bench: Bench = {
  name: 'checkpoint',
  about: 'saving weights and optimizer durably, MB/s, against write and fsync of as many bytes',
  async run(settings) {
    const results: Result[] = [];
    for (const size of sizesNamed(settings.sizes ?? '0.5m,4m,34m')) results.push(await saveSize(size, settings));
    return results;
  },
};

async function saveSize(size: Size, { rounds, say, scratch }: Settings): Promise<Result> {
  const dir = await writeModel(scratch, size);
  const folder = join(scratch, `saved-${size.name}`);
  mkdirSync(folder);
  const ours = startOurs('checkpoint.ts');
  const ceiling = startOurs('checkpoint.ts');
  try {
    await ours.ask({ do: 'open', dir });
    let allSame = true;
    const first = await ours.ask<Written>({ do: 'save', folder, step: 0 });
    const write = () => ceiling.ask<Written>({ do: 'write', folder, size: first.bytes });
    await write();
    const times = Math.max(1, Math.round((MEGABYTES_A_ROUND * 1e6) / first.bytes));
    const several = async (once: (at: number) => Promise<Written>): Promise<Measured> => {
      const total = { work: 0, seconds: 0, cpuSeconds: 0, checkingCpuSeconds: 0 };
      for (let at = 0; at < times; at++) {
        const { bytes, same, seconds, cpu_seconds, checking_cpu_seconds } = await once(at);
        allSame &&= same;
        total.work += bytes / 1e6;
        total.seconds += seconds;
        total.cpuSeconds += cpu_seconds;
        total.checkingCpuSeconds += checking_cpu_seconds;
      }
      return total;
    };
    const save = (step: number) => ours.ask<Written>({ do: 'save', folder, step });
    const sides: Side[] = [
      { name: 'save', round: (round) => several((at) => save(1 + round * times + at)) },
      { name: 'write and fsync', round: () => several(write) },
    ];
    const onRound = (line: string) => say(`checkpoint ${size.name}: ${line}`);
    const { measured, disturbed } = await interleave(sides, { rounds, onRound });
    const more = {
      parameters: parameterCount(size.config),
      work: `${(first.bytes / 1e6).toFixed(1)} MB, ${times} times a round`,
      memory_mib: { ours: mebibytes(await ours.ask<Memory>({ do: 'memory' })) },
    };
    return compared(
      { case: `${size.name} with optimizer`, unit: 'MB/s', disturbed, more },
      measured[0]!,
      { what: 'one file of as many bytes, written and flushed', measured: measured[1]! },
      { equal: allSame && first.same, how: allSame ? 'read back as saved, bit for bit' : 'not read back as saved' },
    );
  } finally {
    await Promise.all([ours.close(), ceiling.close()]);
  }
}
