/** Other people's images as servers of this machine, each configured by its environment as its image would be. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openPool } from '../../store/db/pool.ts';
import { prepareBinaries } from '../../store/server/binaries.ts';
import { ensureCluster, removeCluster } from '../../store/server/cluster.ts';
import { startServer } from '../../store/server/launcher.ts';
import { checkContainer, follow, type Started } from './container.ts';
import type { Container } from './file.ts';
import type { Here } from './here.ts';

/** Programs of the image's folder bin, by the class that each starts. */
const PROGRAMS: Readonly<Record<string, string>> = { 'kafka-topics.sh': 'org.apache.kafka.tools.TopicCommand' };
/** What the image has where nobody says otherwise. */
const CLUSTER_ID = '5L6g3nShT-eMCtK--X86sw';
const QUICK = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

/** Puts what the image has below /opt/kafka into `folder`, for checks that call it. */
export function kafkaPrograms(jars: string, folder: string): void {
  mkdirSync(join(folder, 'bin'), { recursive: true });
  for (const [name, program] of Object.entries(PROGRAMS))
    writeFileSync(
      join(folder, 'bin', name),
      `#!/bin/sh\nexec java ${QUICK.join(' ')} -cp '${jars}/*' ${program} "$@"\n`,
      { mode: 0o755 },
    );
}

/** The image's own first step makes the broker's properties of the environment and formats its folder; then the broker starts. */
export function startKafkaImage(container: Container, here: Here, jars: string, folder: string): Started {
  const environment = here.environment(container);
  const env = { PATH: process.env.PATH ?? '', HOME: folder, CLUSTER_ID, ...environment };
  const places = ['default', 'mounted', 'final'].map((name) => join(folder, name));
  for (const place of places) mkdirSync(place, { recursive: true });
  const java = [...QUICK, '-cp', join(jars, '*')];
  const options = places.flatMap((place, i) => [`--${['default', 'mounted', 'final'][i]}-configs-dir`, place]);
  const setup = spawnSync('java', [...java, 'kafka.docker.KafkaDockerWrapper', 'setup', ...options], {
    env,
    encoding: 'utf8',
  });
  if (setup.status !== 0) throw new Error(`${container.name} was not set up: ${setup.stderr.slice(-1000)}`);
  const heap = (environment.KAFKA_HEAP_OPTS ?? '').split(' ').filter((word) => word !== '');
  const child = spawn('java', [...heap, ...java, 'kafka.Kafka', join(folder, 'final/server.properties')], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return follow(container, child, () => checkContainer(container, here, { cwd: folder, env }));
}

/** A server with the user, the password and the database that the image would make, in the folder where it would make them. */
export async function startPostgresImage(container: Container, here: Here): Promise<Started> {
  const folder = here.text(container, '/var/lib/postgresql');
  const environment = here.environment(container);
  const { POSTGRES_PASSWORD: password, POSTGRES_USER: user = 'postgres', POSTGRES_DB: database = user } = environment;
  if (!password) throw new Error(`${container.name}: the image does not start without POSTGRES_PASSWORD.`);
  const binaries = prepareBinaries();
  const data = join(folder, 'data');
  const cluster = await ensureCluster(binaries, data, true);
  const server = await startServer(binaries, cluster, { port: here.port(container.name, 5432) });
  const admin = openPool(server.url('postgres'), { max: 1 });
  await admin.query(`create role "${user}" superuser login password '${password.replaceAll("'", "''")}'`);
  if (database !== 'postgres') await admin.query(`create database "${database}" owner "${user}"`);
  await admin.close();
  let running = true;
  const ended = server.ended.then(() => {
    running = false;
    removeCluster(data);
  });
  const env = { PATH: process.env.PATH ?? '', HOME: folder, ...environment };
  return {
    container,
    output: () => '',
    code: () => (running ? null : 0),
    running: () => running,
    ended,
    stop: async () => {
      await server.stop();
      await ended;
    },
    check: () => checkContainer(container, here, { cwd: folder, env }),
  };
}
