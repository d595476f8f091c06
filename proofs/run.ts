/**
 * Runs proofs: `npm run proofs -- [NAME…] [--full]`. Without a name all of them, without `--full` their short form.
 * A proof whose part is missing says in one line how to get it and counts as skipped; where CI is set that is a failure.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { proof as analysisExamplesAgree } from './analysis-examples-agree.ts';
import { proof as backupInS3 } from './backup-in-s3.ts';
import { proof as chaos } from './chaos.ts';
import { proof as chatLogsTrainInTrl } from './chat-logs-train-in-trl.ts';
import { proof as checkpointLoads } from './checkpoint-loads.ts';
import { proof as checkpointsInS3 } from './checkpoints-in-s3.ts';
import { missingClients } from './clients.ts';
import { proof as clientsArrive } from './clients-arrive.ts';
import { proof as commandsMatchPytorch } from './commands-match-pytorch.ts';
import { proof as composeAsProcesses } from './compose-as-processes.ts';
import { proof as eventLoop } from './event-loop.ts';
import { proof as exampleTeams } from './example-teams.ts';
import { proof as filesArrive } from './files-arrive.ts';
import { proof as gateRates } from './gate-rates.ts';
import { proof as ingestAlone } from './ingest-alone.ts';
import { findKafka } from './kafka.ts';
import { proof as kafkaLog } from './kafka-log.ts';
import { proof as kafkaProjectors } from './kafka-projectors.ts';
import { proof as killedProgramsRecover } from './killed-programs-recover.ts';
import { proof as loopRestarts } from './loop-restarts.ts';
import { proof as methodsMatchSources } from './methods-match-sources.ts';
import { proof as modelsMatchTransformers } from './models-match-transformers.ts';
import { proof as nothingAcknowledgedIsLost } from './nothing-acknowledged-is-lost.ts';
import { proof as openaiClients } from './openai-clients.ts';
import { proof as packageInstalls } from './package-installs.ts';
import { proof as planTrainsWithTrl } from './plan-trains-with-trl.ts';
import type { Proof } from './proof.ts';
import { findPython } from './python.ts';
import { proof as pythonRecorder } from './python-recorder.ts';
import { proof as pythonTeam } from './python-team.ts';
import { proof as refusedKeys } from './refused-keys.ts';
import { findVersitygw } from './s3.ts';
import { proof as savesSurviveKills } from './saves-survive-kills.ts';
import { proof as sqlChangesNothing } from './sql-changes-nothing.ts';
import { proof as staysUp } from './stays-up.ts';
import { proof as testsCatchSeededBugs } from './tests-catch-seeded-bugs.ts';
import { proof as toolsReadTheViews } from './tools-read-the-views.ts';
import { proof as trainersTakeDatasets } from './trainers-take-datasets.ts';
import { proof as trainingMatchesPytorch } from './training-matches-pytorch.ts';
import { proof as trainingResumes } from './training-resumes.ts';

const PROOFS: readonly Proof[] = [
  checkpointLoads,
  modelsMatchTransformers,
  methodsMatchSources,
  trainingMatchesPytorch,
  commandsMatchPytorch,
  savesSurviveKills,
  trainingResumes,
  trainersTakeDatasets,
  toolsReadTheViews,
  analysisExamplesAgree,
  sqlChangesNothing,
  planTrainsWithTrl,
  chatLogsTrainInTrl,
  checkpointsInS3,
  backupInS3,
  loopRestarts,
  staysUp,
  openaiClients,
  refusedKeys,
  eventLoop,
  filesArrive,
  gateRates,
  clientsArrive,
  pythonRecorder,
  pythonTeam,
  exampleTeams,
  packageInstalls,
  killedProgramsRecover,
  kafkaLog,
  ingestAlone,
  kafkaProjectors,
  nothingAcknowledgedIsLost,
  chaos,
  composeAsProcesses,
  testsCatchSeededBugs,
];

type Verdict = 'ok' | 'ok, run twice' | 'FAILED' | 'skipped';
type Result = {
  readonly name: string;
  readonly verdict: Verdict;
  readonly checks: number;
  readonly seconds: number;
  /** The checks that failed, as they were printed. */
  readonly failed: readonly string[];
};

const { values, positionals } = parseArgs({ allowPositionals: true, options: { full: { type: 'boolean' } } });
const unknown = positionals.filter((name) => !PROOFS.some((proof) => proof.name === name));
if (unknown.length > 0) {
  const known = PROOFS.map((proof) => proof.name).join(', ');
  process.stderr.write(`There is no proof ${unknown.join(', ')}; the proofs are ${known}.\n`);
  process.exit(2);
}

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

const asked = PROOFS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const results: Result[] = [];
for (const proof of asked) results.push(await run(proof, values.full !== true));
// Machines that other programs share stall for seconds. What fails there runs once more, after the others; both runs are reported.
const again = process.env.CI ? results.filter(({ verdict }) => verdict === 'FAILED') : [];
for (const first of again) {
  say(`\n${first.name} failed and is run once more`);
  const second = await run(asked.find(({ name }) => name === first.name)!, values.full !== true);
  const verdict = second.verdict === 'ok' ? 'ok, run twice' : second.verdict;
  results[results.indexOf(first)] = { ...second, verdict, failed: [...first.failed, ...second.failed] };
}
say(`\n${'proof'.padEnd(30)}${'verdict'.padEnd(15)}${'checks'.padStart(6)}${'seconds'.padStart(9)}`);
for (const { name, verdict, checks, seconds } of results) {
  say(`${name.padEnd(30)}${verdict.padEnd(15)}${String(checks).padStart(6)}${seconds.toFixed(1).padStart(9)}`);
}
const count = (verdict: Verdict): number => results.filter((result) => result.verdict === verdict).length;
for (const { name, failed } of results) for (const line of failed) say(`${name}: ${line}`);
const passed = count('ok') + count('ok, run twice');
say(`${passed} passed, ${count('FAILED')} failed, ${count('skipped')} skipped`);
process.exitCode = count('FAILED') > 0 || (process.env.CI && count('skipped') > 0) ? 1 : 0;

async function run(proof: Proof, short: boolean): Promise<Result> {
  const began = performance.now();
  const { name } = proof;
  say(`${name} (${short ? 'short' : 'full'} form)`);
  const python = proof.needs.includes('python') ? findPython(process.env) : { python: '' };
  const s3 = proof.needs.includes('s3') ? findVersitygw(process.env) : { versitygw: '' };
  const kafka = proof.needs.includes('kafka') ? findKafka(process.env) : { jars: '' };
  const missing = [python, s3, kafka].flatMap((part) => ('missing' in part ? [part.missing] : []));
  if ('missing' in python || missing.length > 0) {
    say(`skipped: ${missing[0]}`);
    return { name, verdict: 'skipped', checks: 0, seconds: 0, failed: [] };
  }
  const clients = proof.needs.includes('clients') ? missingClients(process.env) : null;
  if (clients !== null) {
    say(`skipped: ${clients}`);
    return { name, verdict: 'skipped', checks: 0, seconds: 0, failed: [] };
  }
  // Yours is for the proofs of Kafka: the others would write to it.
  const { KAFKA_BROKERS: yours } = process.env;
  if (!proof.needs.includes('kafka')) delete process.env.KAFKA_BROKERS;
  const scratch = mkdtempSync(join(tmpdir(), `troupe-proof-${name}-`));
  const ended = (verdict: Verdict, lines: readonly string[]): Result => ({
    name,
    verdict,
    checks: lines.length,
    failed: lines.filter((line) => line.startsWith('NOT OK')),
    seconds: (performance.now() - began) / 1000,
  });
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
    if (yours !== undefined) process.env.KAFKA_BROKERS = yours;
    rmSync(scratch, { recursive: true, force: true });
  }
}
