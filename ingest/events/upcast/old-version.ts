import type { TObject } from 'typebox';

/** A version of an event type that is no longer written. */
export type OldVersion = {
  /** What data of this version had to be. It never changes again. */
  readonly schema: TObject;
  /** Data of this version as data of the next. What it does not name it hands on. */
  readonly upcast: (data: Readonly<Record<string, unknown>>) => Record<string, unknown>;
};
