/** Benchmarks: programs of the repository, started from the command line. They are no part of the package. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { V8_FLAGS } from '../processes/children.ts';

/** Of the checkout, also where this file is its output in dist. */
const PROGRAM = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../bench/run.ts' : '../../../bench/run.ts', import.meta.url),
);

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('bench')
      .argument('[name]', 'which benchmark; without a name they are listed')
      .option('--threads <n>', 'threads of each side (1)', wholeNumber('threads'))
      .option('--rounds <n>', 'rounds of each side, at least 5 (6)', wholeNumber('rounds'))
      .option('--sizes <names>', 'model sizes, separated by commas, such as 0.5m,4m')
      .option('--size <name>', 'one model size')
      .option('--steps <n>', 'train, train-trl: training steps of a round', wholeNumber('steps'))
      .option(
        '--only <names>',
        'growth: which of ingest, judge, export, freeze; rollout: rollout, round or scheduler; scale: sizes or projectors',
      )
      .option('--assumptions <file>', 'scale: numbers to compute from, as YAML, in place of those it prints')
      .option('--lora', 'train: a low-rank adapter in place of all parameters')
      .option('--fused', 'train: PyTorch with its fused AdamW too')
      .option('--compile', 'train: torch.compile too')
      .option('--profile', "train: where the time of one of Troupe's steps goes, by operation")
      .option('--defaults', 'train-trl: TRL with gradient checkpointing, its default, too')
      .addHelpText(
        'after',
        '\nMedians with the smallest and largest beside them; outputs of both sides are compared before their times are.\nPeers in Python are found by TROUPE_BENCH_PYTHON; where one is missing the line that gets it is printed, and Troupe is measured alone.\n\nExamples:\n  troupe bench train --sizes 0.5m,4m --threads 2\n  troupe bench sample --json > sample.json\n  troupe bench checkpoint',
      ),
    ([name], flags) => runBench(name, flags),
  );
}

const VALUES = ['threads', 'rounds', 'sizes', 'size', 'steps', 'only', 'assumptions'] as const;
const SWITCHES = ['lora', 'fused', 'compile', 'profile', 'defaults', 'json', 'quiet'] as const;

/** Its report is on our standard output and its progress on our standard error, as they come. */
async function runBench(name: string | undefined, flags: Flags): Promise<number> {
  if (!existsSync(PROGRAM)) {
    throw new TroupeError(
      'platform_unsupported',
      'Benchmarks need a checkout of the repository; they are not part of the package.',
      {
        hint: 'Clone the repository, and run in it: npm ci && npx troupe bench',
      },
    );
  }
  const args = [
    ...(name === undefined ? [] : [name]),
    ...VALUES.flatMap((flag) => (flags[flag] === undefined ? [] : [`--${flag}`, String(flags[flag])])),
    ...SWITCHES.filter((flag) => flags[flag] === true).map((flag) => `--${flag}`),
  ];
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const child = spawn(process.execPath, ['--import', loader, ...V8_FLAGS, PROGRAM, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  // Ctrl-C reaches it from the terminal; a signal to us alone is handed on. Either way it ends first.
  const hand = (signal: NodeJS.Signals) => child.kill(signal);
  process.on('SIGTERM', hand).on('SIGINT', hand);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      process.off('SIGTERM', hand).off('SIGINT', hand);
      resolve(code ?? (signal === 'SIGINT' ? EXIT.interrupted : 128 + constants.signals[signal!]));
    });
  });
}
