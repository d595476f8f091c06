/**
 * An operation is what a user can ask for. It is declared once, in the file of its noun; the command, the HTTP route, the methods of the
 * library and of the client, and the page of docs follow from the declaration.
 */
import { type Static, type TObject, type TOptional, type TProperties, type TSchema, Type } from 'typebox';
import { got, TroupeError } from '../../errors.ts';
import type { Redactor } from '../../ingest/events/redact.ts';
import type { ArtifactStore, EventLog, IngestLedger, Originals } from '../../ingest/log/log.ts';
import type { LogSource } from '../../ingest/log/source.ts';
import type { EpisodeRule } from '../../ingest/traces/otlp/episode-rules.ts';
import type { DatabaseOptions } from '../../store/db/database.ts';
import type { Patiently } from '../../store/db/patience.ts';
import type { Db } from '../../store/db/pool.ts';
import type { Scope } from '../../store/keys/api-key.ts';
import type { Topic } from '../../store/log/reconcile.ts';
import type { Home } from '../../store/server/home.ts';
import { aboutOf } from './groups.ts';

/** The context of an operation, built by the interface that runs it. */
export type ReadContext = {
  readonly db: Db;
  /** The login that reads the views and nothing else; null where the server lets none be made. */
  readonly reader: () => Promise<Db | null>;
  readonly project: string;
  readonly now: () => Date;
  /** Who asks: the user of the machine, or the name of the key. */
  readonly by: string;
  readonly settings: {
    readonly notify: Readonly<Record<string, unknown>> | null;
    readonly judge: unknown;
    readonly close_after: number;
    readonly routes?: unknown;
    readonly upstreams?: unknown;
    readonly trainings?: number;
    readonly threads?: number;
    readonly host?: string;
    readonly port?: number;
    readonly kafka_partitions?: number;
    readonly runners?: Readonly<Record<string, unknown>> | null;
    readonly rewards?: Readonly<Record<string, unknown>> | null;
    readonly engines?: Readonly<Record<string, unknown>> | null;
  };
  readonly home: Home;
  /** Where the databases of all projects are, and the project, where one is named. */
  readonly server: () => Promise<Pick<DatabaseOptions, 'home' | 'databaseUrl' | 'embedded' | 'project'>>;
  /** Asks the project, once its tables are up to date; null where there is none to ask. */
  readonly inProject: <T>(ask: (db: Db) => Promise<T>) => Promise<T | null>;
  readonly version: string;
  /** Retries what can be repeated until the database, the broker and the disk allow it. */
  readonly patiently: Patiently;
  /** Says how far long work is. */
  readonly progress: (done: number, total: number, note?: string) => void;
  /** Tells a person who watches what has happened. */
  readonly say: (text: string) => void;
  /** Fires when whoever asked no longer wants the work done. */
  readonly signal: AbortSignal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Brings the tables up to what the log holds now, where no projector does. */
  readonly catchUp: (options?: {
    readonly signal?: AbortSignal;
    /** Called with the number of events that were applied so far. */
    readonly onApplied?: (events: number) => void;
  }) => Promise<unknown>;
  /** What the log outside the database records of itself, if there is one. */
  readonly topic: () => Promise<Topic | undefined>;
};

/** The same for an operation that changes something. */
export type ChangeContext = ReadContext & {
  readonly log: EventLog;
  readonly artifacts: ArtifactStore;
  readonly originals: Originals;
  readonly book: IngestLedger;
  /** Where the log is read, if it lies outside the database. */
  readonly source: LogSource | null;
  readonly redactor: Redactor;
  /** Which spans of a program belong together, besides what they say themselves. */
  readonly episodes: readonly EpisodeRule[];
  /** True: whoever asks works on this machine, and may name its files and folders. */
  readonly isHere: boolean;
  /** Works on a run of a plan until it has ended or waits for a person; null where other processes do. */
  readonly workOnRun: ((run: string, of: Pick<ReadContext, 'say' | 'signal'>) => Promise<void>) | null;
};

/** What the function of an operation resolves with. */
export type OutputOf<F extends (...args: never) => Promise<unknown>> = Awaited<ReturnType<F>>;

/** What prints an output for people. */
export type Printer = {
  /** Says something beside the output, where nobody asked for quiet. */
  readonly say: (text: string) => void;
  /** True: long texts are shown whole. */
  readonly full: boolean;
  /** True: this is a page after the first. */
  readonly goesOn: boolean;
  /** A cell longer than `most`, by default 80, is cut. */
  readonly table: (head: readonly string[], rows: readonly (readonly unknown[])[], most?: number) => string;
  /** Colours, where a person looks. */
  readonly paint: { readonly isColorSupported: boolean } & Readonly<
    Record<'bold' | 'cyan' | 'dim' | 'green', (text: string) => string>
  >;
};

type Values = Readonly<Record<string, unknown>>;

type Plain<T> = T extends readonly (infer E)[]
  ? readonly Plain<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Plain<T[K]> }
    : T;
type Context<C extends boolean> = C extends true ? ChangeContext : ReadContext;

/** A field that may be left out, and has a value then. */
type DefaultMark = { readonly '~defaulted': true };
type WithDefault<P> = {
  [K in keyof P as P[K] extends DefaultMark ? K : never]: P[K] extends TSchema ? Static<P[K]> : never;
};
/** The input as it is given, and as `run` gets it. */
type GivenInput<I extends TProperties> = Static<TObject<I>>;
export type InputOf<I extends TProperties> = GivenInput<I> & WithDefault<I>;

type Declaration<I extends TProperties, O extends TSchema, C extends boolean, R> = {
  /** `schedule.pause` is `troupe schedule pause`, `POST /v1/schedules/NAME/pause` and `project.schedule.pause({…})`. */
  readonly name: string;
  /** One sentence in the imperative, without a full stop; that of a verb by itself stands in groups.ts. */
  readonly about?: string;
  /** What else its help and its page say. */
  readonly notes?: string;
  readonly examples: readonly GivenInput<I>[];
  /** Its fields; there are no others. */
  readonly input: I;
  readonly output: O;
  /** What a key needs over HTTP. */
  readonly scope: Scope;
  readonly changes: C;
  /**
   * What its progress is called, of an operation that may take minutes: the command shows a bar, the library and the client call
   * `onProgress`, and over HTTP it is a job, which `Idempotency-Key` makes safe to repeat.
   */
  readonly long?: string;
  /** True: it requests a job and waits for it; over HTTP it answers once the job is requested. */
  readonly requests?: true;
  /** True: the answer may be large or costly, so that it is read on another thread of the server. */
  readonly large?: true;
  /** It needs no project, ever or for such an input, so that the command opens none. */
  readonly alone?: true | ((input: InputOf<I>) => boolean);
  /** True: it is about the folders of this machine, so that it is not there over HTTP. */
  readonly here?: true;
  /** True: it computes on the thread that asks, so the library does it in a separate process. */
  readonly blocks?: true;
  /** True: over HTTP its input is a body, also where it changes nothing. */
  readonly body?: true;
  /** True: agents ask it while they play, so over HTTP it answers from the tables as they are, with or without a projector. */
  readonly live?: true;
  /** True: an output is a page with its `next`; the command shows them all, and with `--json` as one. */
  readonly pages?: true;
  /** True: its text for people is cut where it is long, unless the command has `--full`. */
  readonly cuts?: true;
  /** Whether it writes its result to standard output, where no `--json` can stand beside it. */
  readonly prints?: (input: InputOf<I>) => boolean;
  readonly run: () => Promise<(context: Context<C>, input: InputOf<I>) => Promise<R>>;
  /** The output as text for people. */
  readonly text: () => Promise<(output: R, printer: Printer) => string>;
  /** What the command asks before it does what cannot be undone, of the output of a dry run; null where there is nothing to ask. */
  readonly confirm?: () => Promise<(planned: R) => string | null>;
  /** The exit code of the command, where it is not 0. */
  readonly exit?: (output: R) => number;
};

/** Any operation. */
export type Operation = Omit<
  Declaration<TProperties, TSchema, boolean, unknown>,
  'about' | 'examples' | 'input' | 'alone' | 'run' | 'text' | 'confirm' | 'exit' | 'prints'
> & {
  readonly about: string;
  readonly input: TObject;
  readonly alone?: true | ((input: Values) => boolean);
  readonly examples: readonly Values[];
  readonly run: () => Promise<(context: ChangeContext, input: Values) => Promise<unknown>>;
  readonly text: () => Promise<(output: unknown, printer: Printer) => string>;
  readonly confirm?: () => Promise<(planned: unknown) => string | null>;
  readonly prints?: (input: Values) => boolean;
  readonly exit?: (output: unknown) => number;
};

/** What a program may ask for beside the input. */
export type CallOptions = Partial<Pick<ReadContext, 'signal'>> & {
  /** Called while long work goes on. */
  readonly onProgress?: ReadContext['progress'];
  /** Of the client, in place of a file or folder that an operation writes: takes its bytes, of a folder a tar archive. */
  readonly onResult?: (bytes: Uint8Array) => unknown;
  /** Of the client, in place of files that an operation reads: their content. */
  readonly content?: Uint8Array | AsyncIterable<Uint8Array>;
};

/** How a program calls an operation: the type of a method of the library and of the client. */
export type Method<T> = T extends { readonly '~call': infer Call } ? Call : never;
type Call<I extends TProperties, O extends TSchema> =
  Record<never, never> extends GivenInput<I>
    ? (input?: GivenInput<I>, options?: CallOptions) => Promise<Plain<Static<O>>>
    : (input: GivenInput<I>, options?: CallOptions) => Promise<Plain<Static<O>>>;

/** Declares an operation. */
export const operation = <I extends TProperties, O extends TSchema, C extends boolean, R extends Plain<Static<O>>>(
  declared: Declaration<I, O, C, R>,
) =>
  ({
    ...declared,
    about: declared.about ?? aboutOf(declared.name),
    input: Type.Object(declared.input, { additionalProperties: false }),
  }) as unknown as Operation & { readonly '~call': Call<I, O> };

/** How a field is written on the command line, where it is not as an option of its name with its value. */
export type Writing = {
  /** An argument without a name. */
  readonly position?: true;
  readonly flag?: string;
  readonly short?: string;
  /** What help calls its value. */
  readonly value?: string;
  /** Its value from the text. An error completes the sentence "--flag …, but it is "text"". */
  readonly parse?: (text: string) => unknown;
  /** The text of its value. */
  readonly text?: (value: never) => string;
  /** Each text is a part of an object. */
  readonly repeated?: true;
  /** It is read from files of this machine; the command line knows how. A document is one file of YAML or JSON, `-` standard input. */
  readonly file?: 'job' | 'document' | 'stdin';
  /** It names a format, for which the command line also takes a file of the user's own that has one. */
  readonly ownFormat?: true;
  /** Where it is left out, it is the folder of the file of this field. */
  readonly folderOf?: string;
  /** What to do, where the file of a document cannot be read. */
  readonly hint?: (file: string) => string | undefined;
  /**
   * It names a file or folder of the machine that does the work, which nobody may name over HTTP. `only`: there is no such field over
   * HTTP. `or name`: over HTTP it is a name. `result` and `results`: what the work writes into this file or folder is the answer over
   * HTTP, as it is or as a tar archive; the output is in its header `troupe-output`. `content`: over HTTP the body of the request is the
   * content of such a file, and the other fields stand in the query.
   */
  readonly path?: 'only' | 'or name' | 'result' | 'results' | 'content';
  /** The most that it may be over HTTP. */
  readonly most?: number;
};
const WRITING = 'x-command';

/** How the command line writes a field. */
export const writingOf = (schema: TSchema): Writing => (schema as { [WRITING]?: Writing })[WRITING] ?? {};

export const withKeywords = <S extends TSchema>(schema: S, keywords: object): S =>
  Object.assign(Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)) as S, keywords);

export const written = <S extends TSchema>(schema: S, writing: Writing): S =>
  withKeywords(schema, { [WRITING]: writing });
/** A field that names a file or folder of this machine. */
export const local = <S extends TSchema>(schema: S, kind: Writing['path'] & string, writing: Writing = {}): S =>
  written(schema, { ...writing, path: kind });
export const position = <S extends TSchema>(schema: S): S => written(schema, { position: true });

/** A field with another description. */
export const described = <S extends TSchema>(schema: S, description: string): S =>
  withKeywords(schema, { description });

/** A text with its own syntax. The message that `check` throws completes the sentence "FIELD …, but it is "text"". */
export const language = <S extends TSchema>(schema: S, check: (text: string) => unknown): S =>
  withKeywords(schema, {
    reads: (value: unknown, path: string) => {
      try {
        if (typeof value !== 'string') throw new Error('should be a text');
        check(value);
      } catch (error) {
        const why = (error as Error).message;
        throw new TroupeError('usage', `${path} ${why}, but it is ${got(value)}.`, {
          ...{ field: path, expected: why.replace(/^should /, ''), got: got(value) },
        });
      }
    },
  });

/** A field that has this value where it is left out. */
export const defaulted = <S extends TSchema>(schema: S, value: Static<S>): TOptional<S> & DefaultMark =>
  Type.Optional(withKeywords(schema, { default: value })) as TOptional<S> & DefaultMark;

/** A schema as documents show it: without what only the command line reads. */
export const shownSchema = <S extends TSchema>(schema: S): S =>
  JSON.parse(JSON.stringify(schema, (key, value) => (key === WRITING ? undefined : value)));
