/** Everything of the file started as processes, in the order in which its containers wait for each other. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Image, type Started, startContainer, untilHealthy } from './container.ts';
import { environmentOf, lastOf, readDockerfile, wordsOf } from './dockerfile.ts';
import { type Compose, type Container, inOrder, readCompose, readEnv, variablesOf } from './file.ts';
import { type Here, openHere } from './here.ts';
import { kafkaPrograms, startKafkaImage, startPostgresImage } from './images.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (name: string): string => readFileSync(join(ROOT, 'docker', name), 'utf8');

/** What docker/ says. */
export const dockerFiles = () => ({
  compose: read('compose.yaml'),
  dockerfile: read('Dockerfile'),
  ignored: read('Dockerfile.dockerignore'),
  env: read('env.example'),
});

/** The file with docker/env.example beside it, each line that is left empty there filled by `secret`; and our image. */
export function readAll(secret: () => string): { compose: Compose; image: Image } {
  const { compose, dockerfile, env } = dockerFiles();
  const filled = Object.fromEntries(Object.entries(readEnv(env)).map(([name, value]) => [name, value || secret()]));
  const strange = variablesOf(compose).filter((name) => !(name in filled));
  if (strange.length > 0) throw new Error(`docker/env.example lacks ${strange.join(', ')}.`);
  const stage = readDockerfile(dockerfile).at(-1)!;
  const image = {
    entrypoint: wordsOf(stage, 'ENTRYPOINT'),
    command: wordsOf(stage, 'CMD'),
    folder: lastOf(stage, 'WORKDIR') ?? '/',
  };
  const { containers, ...rest } = readCompose(compose, filled);
  const withImage = (one: Container): Container =>
    one.ours ? { ...one, environment: { ...environmentOf(stage), ...one.environment } } : one;
  return { compose: { ...rest, containers: containers.map(withImage) }, image };
}

export type Up = {
  readonly here: Here;
  /** In the order in which they were started. */
  readonly started: readonly Started[];
  /** Why what did not start did not; null where all did. */
  readonly failure: string | null;
  /** One of our containers with an environment of its own. */
  readonly start: (container: Container, environment: Readonly<Record<string, string>>) => Started;
};

type Asked = {
  readonly scratch: string;
  /** A folder with the jars of a broker and its tools. */
  readonly jars: string;
  /** What stands for folders of our image. */
  readonly app: Readonly<Record<string, string>>;
  readonly onHealthy: (container: Container, seconds: number) => void;
};

export async function startAll({ compose, image }: ReturnType<typeof readAll>, asked: Asked): Promise<Up> {
  const { scratch, jars, app, onHealthy } = asked;
  const kafka = join(scratch, 'kafka-image');
  kafkaPrograms(jars, kafka);
  const volumes = join(scratch, 'volumes');
  for (const name of compose.volumes) mkdirSync(join(volumes, name), { recursive: true });
  const here = await openHere(compose.containers, volumes, { ...app, '/opt/kafka': kafka });
  const start: Up['start'] = (container, environment) => startContainer(container, image, here, environment);
  const one = async (container: Container): Promise<Started> => {
    if (container.ours) return start(container, here.environment(container));
    if (container.image.startsWith('apache/kafka:'))
      return startKafkaImage(container, here, jars, join(scratch, 'broker'));
    if (container.image.startsWith('postgres:')) return startPostgresImage(container, here);
    throw new Error(`${container.name}: nothing here stands for the image ${container.image}.`);
  };
  const started: Started[] = [];
  const waiting = [...inOrder(compose.containers)];
  while (waiting.length > 0) {
    const done = new Set(started.map(({ container }) => container.name));
    const ready = waiting.filter(({ dependsOn }) => dependsOn.every(({ name }) => done.has(name)));
    for (const container of ready) waiting.splice(waiting.indexOf(container), 1);
    const failures = await Promise.all(
      ready.map(async (container) => {
        const began = performance.now();
        try {
          const process = await one(container);
          started.push(process);
          const failure = await untilHealthy(process);
          if (failure === null) onHealthy(container, (performance.now() - began) / 1000);
          return failure;
        } catch (error) {
          return (error as Error).message;
        }
      }),
    );
    const failure = failures.find((why) => why !== null);
    if (failure !== undefined) return { here, started, failure: failure as string, start };
  }
  return { here, started, failure: null, start };
}
